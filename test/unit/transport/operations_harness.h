#pragma once

#include <array>
#include <cstring>

#include "transport/operations.h"
#include "transport_harness.h"

/// One transport with operations and a scripted peer, whose operations are put together by hand.
namespace mtl::transport::test {

using Kind = Work::Kind;

inline constexpr Key kKey{0x0123456789ABCDEF};
inline constexpr std::uint64_t kFirst = 0x7F0000001000;

inline Limits base_limits() {
  Limits l;
  l.operations = 512;
  return l;
}

class Subject {
 public:
  Subject(const Settings& settings, RandomWords& words, const Limits& limits)
      : operations(settings, limits, words) {}
  Transport& transport() { return operations.transport(); }
  Operations operations;
};

/// An operation of the peer's, put together by hand.
class Bits {
 public:
  Bits& u8(unsigned v) {
    bytes.push_back(static_cast<std::byte>(v));
    return *this;
  }
  Bits& u16(unsigned v) { return u8(v >> 8).u8(v & 0xFF); }
  Bits& u32(std::uint32_t v) { return u16(v >> 16).u16(v & 0xFFFF); }
  Bits& u64(std::uint64_t v) {
    return u32(static_cast<std::uint32_t>(v >> 32)).u32(static_cast<std::uint32_t>(v));
  }
  Bits& data(const Bytes& d) {
    bytes.insert(bytes.end(), d.begin(), d.end());
    while (bytes.size() % 4 != 0) u8(0);
    return *this;
  }
  Bytes bytes;
};

inline Bytes row(std::size_t size, unsigned from = 1) {
  Bytes b(size);
  for (std::size_t i = 0; i < size; ++i) b[i] = static_cast<std::byte>(from + i);
  return b;
}

inline Bytes write(std::uint64_t offset, const Bytes& data, Key key = kKey) {
  return Bits()
      .u8(1)
      .u8(0)
      .u16(static_cast<unsigned>(data.size()))
      .u64(key.value())
      .u64(offset)
      .data(data)
      .bytes;
}
inline Bytes read(std::uint64_t offset, std::uint32_t total, std::uint32_t id, Key key = kKey) {
  return Bits().u8(2).u8(0).u16(0).u64(key.value()).u64(offset).u32(total).u32(id).bytes;
}
inline Bytes atomic(unsigned op, unsigned type, std::uint64_t offset, const Bytes& operands,
                    int id = -1) {
  Bits b;
  b.u8(3).u8(id < 0 ? 0 : 4).u16(static_cast<unsigned>(operands.size())).u64(kKey.value());
  b.u64(offset).u8(op).u8(type).u16(0);
  if (id >= 0) b.u32(static_cast<std::uint32_t>(id));
  return b.data(operands).bytes;
}
inline Bytes join(std::initializer_list<Bytes> all) {
  Bytes joined;
  for (const Bytes& b : all) joined.insert(joined.end(), b.begin(), b.end());
  return joined;
}
inline Bytes be32(std::uint32_t v) {
  return Bits().u32(v).bytes;
}
inline Bytes be64(std::uint64_t v) {
  return Bits().u64(v).bytes;
}
inline Bytes result(std::uint32_t id, const Bytes& data, std::uint32_t at = 0) {
  Bits b;
  b.u8(16).u8(at == 0 ? 0 : 1).u16(static_cast<unsigned>(data.size())).u32(id);
  if (at != 0) b.u32(at);
  return b.data(data).bytes;
}
inline Bytes report(std::uint32_t psn, const Bytes& pairs) {
  return Bits().u8(17).u8(0).u16(static_cast<unsigned>(pairs.size())).u32(psn).data(pairs).bytes;
}
inline Bytes pairs(std::initializer_list<unsigned> values) {
  Bytes b;
  for (const unsigned v : values) b.push_back(static_cast<std::byte>(v));
  return b;
}

class OperationsHarness final : public HarnessWith<Subject> {
 public:
  explicit OperationsHarness(const Settings& settings = base_settings(),
                             const Limits& limits = base_limits())
      : HarnessWith(settings, limits) {
    EXPECT_EQ(fault(limits, settings), nullptr);
    give(kKey, {.memory = memory, .rights = 7, .first_offset = kFirst});
  }
  Operations& operations = subject.operations;
  alignas(64) std::array<std::byte, 65536> memory{};

  void give(Key key, const Region& region) { ASSERT_TRUE(operations.give(key, region)); }
  ConnectionHandle handle() const { return {0, ConnectionId{kOurId}}; }
  /// The peer's next request.
  void request(const Bytes& body, int flags = 0, std::uint32_t acked = 0) {
    data(Flow::kRequest, requests_++, body, flags, acked);
  }
  /// The peer's next response; it speaks of our request flow, `acked` of which are executed.
  void respond(const Bytes& body, std::uint32_t acked = 0) {
    data(Flow::kResponse, responses_++, body, 0, acked);
  }
  /// Bodies of what left on our response flow, or request flow.
  std::vector<Bytes> bodies(Flow flow = Flow::kResponse) const {
    std::vector<Bytes> all;
    for (const Sent& s : data_sent()) {
      if (s.packet_class() == (flow == Flow::kResponse ? 1 : 0)) {
        all.emplace_back(s.bytes.begin() + 28, s.bytes.end() - 4);
      }
    }
    return all;
  }
  /// Responses by themselves, joined.
  Bytes responses() const {
    Bytes all;
    for (const Bytes& b : bodies()) all.insert(all.end(), b.begin(), b.end());
    return all;
  }
  Posted post(const Work& work) {
    const Posted posted = operations.post(handle(), work, now);
    pull();
    return posted;
  }
  std::vector<Completion> completions() {
    std::vector<Completion> all;
    Completion c;
    while (operations.next_completion(c)) all.push_back(c);
    return all;
  }
  Bytes at(std::uint64_t offset, std::size_t size) const {
    const auto from = memory.begin() + static_cast<std::ptrdiff_t>(offset - kFirst);
    return {from, from + static_cast<std::ptrdiff_t>(size)};
  }
  void set(std::uint64_t offset, const Bytes& data) {
    std::copy(data.begin(), data.end(),
              memory.begin() + static_cast<std::ptrdiff_t>(offset - kFirst));
  }
  template <class T>
  T number(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, memory.data() + (offset - kFirst), sizeof value);
    return value;
  }
  template <class T>
  void set_number(std::uint64_t offset, T value) {
    std::memcpy(memory.data() + (offset - kFirst), &value, sizeof value);
  }

 private:
  std::uint32_t requests_ = 0;
  std::uint32_t responses_ = 0;
};

}  // namespace mtl::transport::test
