#include "transport/operation.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <vector>

namespace mtl::transport {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::span<const std::byte> view(const Bytes& bytes) {
  return std::as_bytes(std::span(bytes));
}

template <class T>
T draw() {
  return *rc::gen::arbitrary<T>();
}
template <class T>
T draw_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

/// An operation that keeps T26; its data is in `data`.
Operation draw_operation(Flow flow, Bytes& data) {
  Operation o;
  o.opcode = flow == Flow::kRequest ? draw_of({Opcode::kWrite, Opcode::kRead, Opcode::kAtomic,
                                               Opcode::kSend, Opcode::kSendData, Opcode::kCancel})
                                    : draw_of({Opcode::kResult, Opcode::kReport, Opcode::kCredit,
                                               Opcode::kWant, Opcode::kDone});
  std::size_t length = *rc::gen::inRange<std::size_t>(0, 70);
  o.id = draw<std::uint32_t>();
  switch (o.opcode) {
    case Opcode::kWrite:
      o.id = 0;
      if (draw<bool>()) o.flags = kImm, o.imm = draw<std::uint64_t>();
      break;
    case Opcode::kRead:
      o.total = draw<std::uint32_t>();
      length = 0;
      break;
    case Opcode::kAtomic: {
      o.op = static_cast<AtomicOp>(*rc::gen::inRange(0, 8));
      o.type = static_cast<AtomicType>(*rc::gen::inRange(0, 6));
      if (draw<bool>()) o.flags = kFetch;
      const std::size_t operand = size_of(o.type) * (o.op == AtomicOp::kCompareSwap ? 2 : 1);
      length = operand * *rc::gen::inRange<std::size_t>(1, 9);
      if (!o.has(kFetch)) o.id = 0;
      break;
    }
    case Opcode::kSend:
      o.id = 0;
      o.flags = draw<bool>() ? kComplete : 0;
      if (draw<bool>()) o.flags |= kTag, o.tag = draw<std::uint64_t>();
      if (draw<bool>()) o.flags |= kImm, o.imm = draw<std::uint64_t>();
      o.total = static_cast<std::uint32_t>(length);
      if (draw<bool>()) o.flags |= kTotal, o.total += *rc::gen::inRange(0u, 1u << 31);
      break;
    case Opcode::kSendData:
      o.at = draw<std::uint32_t>();
      if (draw<bool>()) o.flags = kWanted;
      ++length;
      break;
    case Opcode::kResult:
      if (draw<bool>()) o.flags = kAt, o.at = draw<std::uint32_t>();
      break;
    case Opcode::kReport:
      o.id = 0;
      o.psn = Psn{draw<std::uint32_t>()};
      length = 2 * length + 2;
      break;
    case Opcode::kCredit:
      o.id = 0;
      o.limit = draw<std::uint32_t>();
      length = 0;
      break;
    case Opcode::kWant:
      o.limit = draw<std::uint32_t>();
      length = 0;
      break;
    case Opcode::kDone:
      o.status = draw<std::uint32_t>();
      length = 0;
      break;
    case Opcode::kCancel:
      length = 0;
      break;
  }
  if (o.has_address()) {
    o.key = Key{*rc::gen::inRange<std::uint64_t>(0, 3)};
    o.offset = draw<std::uint32_t>() + (draw<bool>() ? std::uint64_t{1} << 40 : 0);
  }
  data = *rc::gen::container<Bytes>(length, rc::gen::arbitrary<std::uint8_t>());
  o.data = view(data);
  return o;
}

// Rules: T26
TEST(OperationProperty, T26_ComesBackAsItWasWritten) {
  EXPECT_TRUE(rc::check([] {
    const Flow flow = draw<bool>() ? Flow::kRequest : Flow::kResponse;
    const std::size_t count = *rc::gen::inRange<std::size_t>(1, 20);
    std::vector<Bytes> data(count);
    std::vector<Operation> sent(count);
    std::array<std::byte, 8192> body{};
    OperationWriter writer(body);
    for (std::size_t i = 0; i < count; ++i) {
      sent[i] = draw_operation(flow, data[i]);
      if (sent[i].has_address()) writer.choose_address(sent[i]);
      RC_ASSERT(head_size(sent[i]) <= kMaxHead);
      const std::size_t before = writer.size();
      writer.put_head(sent[i]);
      writer.put_data(sent[i].data);
      RC_ASSERT(writer.size() == before + head_size(sent[i]) + padded(data[i].size()));
    }
    const std::span<const std::byte> whole(body.data(), writer.size());
    RC_ASSERT(count_operations(flow, false, whole) == count);
    OperationReader reader(whole);
    for (const Operation& want : sent) {
      Operation got;
      RC_ASSERT(reader.next(got));
      RC_ASSERT(got.opcode == want.opcode && got.flags == want.flags);
      RC_ASSERT(got.key == want.key && got.offset == want.offset);
      RC_ASSERT(got.id == want.id && got.total == want.total && got.at == want.at);
      RC_ASSERT(got.imm == want.imm && got.tag == want.tag && got.psn == want.psn);
      RC_ASSERT(got.limit == want.limit && got.status == want.status);
      RC_ASSERT(got.op == want.op && got.type == want.type);
      RC_ASSERT(std::equal(got.data.begin(), got.data.end(), want.data.begin(), want.data.end()));
    }
  }));
}

// Whatever comes: operations lie within the body, in order, and none is left over.
TEST(OperationProperty, T26_AnyBytesAreRefusedOrWithinTheBody) {
  EXPECT_TRUE(rc::check([] {
    const Flow flow = draw<bool>() ? Flow::kRequest : Flow::kResponse;
    Bytes bytes;
    // Mostly operations that stand, then damaged: pure noise ends at its first byte.
    for (int i = *rc::gen::inRange(0, 6); i != 0; --i) {
      Bytes data;
      Operation o = draw_operation(flow, data);
      std::array<std::byte, 512> one{};
      OperationWriter writer(one);
      writer.put_head(o);
      writer.put_data(o.data);
      const auto* p = reinterpret_cast<const std::uint8_t*>(one.data());
      bytes.insert(bytes.end(), p, p + writer.size());
    }
    const auto noise = *rc::gen::container<Bytes>(4, rc::gen::arbitrary<std::uint8_t>());
    bytes.insert(bytes.end(), noise.begin(), noise.end());
    const auto hit = *rc::gen::inRange<std::size_t>(0, bytes.size());
    bytes[hit] = draw<std::uint8_t>();
    // In memory of just its size, so that a sanitizer sees a step beyond.
    const Bytes body(bytes.begin(), bytes.end());
    const auto count = count_operations(flow, draw<bool>(), view(body));
    if (!count) return;
    OperationReader reader(view(body));
    Operation o;
    std::size_t read = 0;
    const std::byte* end = view(body).data();
    while (reader.next(o)) {
      ++read;
      RC_ASSERT(o.data.data() >= end);
      end = o.data.data() + o.data.size();
      RC_ASSERT(end <= view(body).data() + body.size());
    }
    RC_ASSERT(read == *count);
  }));
}

// Rules: T15
TEST(OperationProperty, T15_UnorderedHoldsOnlyWritesWithoutImmAndWantedData) {
  EXPECT_TRUE(rc::check([] {
    Bytes data;
    Operation o = draw_operation(Flow::kRequest, data);
    std::array<std::byte, 512> body{};
    OperationWriter writer(body);
    writer.put_head(o);
    writer.put_data(o.data);
    const std::span<const std::byte> whole(body.data(), writer.size());
    const bool may = (o.opcode == Opcode::kWrite && !o.has(kImm)) ||
                     (o.opcode == Opcode::kSendData && o.has(kWanted));
    RC_ASSERT(count_operations(Flow::kRequest, true, whole).has_value() == may);
  }));
}

}  // namespace
}  // namespace mtl::transport
