// The packets of the reference vectors, byte for byte, and those that are to be refused (section
// 5).

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "conformance/hex.h"
#include "conformance/json_field.h"
#include "transport/codec.h"
#include "transport/operation.h"

namespace mtl::transport {
namespace {

using conformance::JsonField;
using conformance::JsonFile;
using conformance::number_as;
using conformance::to_hex;

constexpr std::size_t kMaxText = std::size_t{1} << 20;
constexpr std::uint64_t kMax32 = 0xFFFFFFFF;

std::uint8_t number8(const JsonField& field) {
  return number_as<std::uint8_t>(field, 0, 0xFF);
}
std::uint16_t number16(const JsonField& field) {
  return number_as<std::uint16_t>(field, 0, 0xFFFF);
}
std::uint32_t number32(const JsonField& field) {
  return number_as<std::uint32_t>(field, 0, kMax32);
}
std::uint64_t hex64(const JsonField& field) {
  return std::stoull(field.text(), nullptr, 16);
}

Header header_of(const JsonField& v) {
  return {.type = static_cast<Type>(number8(v["type"])),
          .flags = number8(v["flags"]),
          .window = number8(v["window"]),
          .marks = Marks{number16(v["marks"])},
          .connection = ConnectionId{number32(v["connection"])},
          .psn = Psn{number32(v["psn"])},
          .ack = Psn{number32(v["ack"])}};
}

network::Header network_of(const JsonField& v) {
  return {.hop_limit = number8(v["hop_limit"]),
          .flags = number8(v["flags"]),
          .packet_class = number8(v["class"]),
          .proto = number8(v["proto"]),
          .dst = NodeId{number16(v["dst"])},
          .src = NodeId{number16(v["src"])},
          .entropy = number16(v["entropy"]),
          .partition = Partition{number16(v["partition"])}};
}

Opcode opcode_of(const std::string& text) {
  for (int i = 0; i < 256; ++i) {
    if (name(static_cast<Opcode>(i)) == text) return static_cast<Opcode>(i);
  }
  ADD_FAILURE() << "no operation " << text;
  return {};
}

/// An operation as the vectors tell it; `data` keeps its bytes.
Operation operation_of(const JsonField& v, std::vector<std::byte>& data) {
  Operation o;
  o.opcode = opcode_of(v["operation"].text());
  EXPECT_EQ(static_cast<int>(o.opcode), number8(v["opcode"]));
  o.flags = number8(v["flags"]);
  data = v["data"].bytes();
  o.data = data;
  if (auto f = v.find("key")) o.key = Key{hex64(*f)};
  if (auto f = v.find("offset")) o.offset = hex64(*f);
  if (auto f = v.find("imm")) o.imm = hex64(*f);
  if (auto f = v.find("tag")) o.tag = hex64(*f);
  if (auto f = v.find("id")) o.id = number32(*f);
  if (auto f = v.find("total")) o.total = number32(*f);
  if (auto f = v.find("at")) o.at = number32(*f);
  if (auto f = v.find("limit")) o.limit = number32(*f);
  if (auto f = v.find("status")) o.status = number32(*f);
  if (auto f = v.find("psn")) o.psn = Psn{number32(*f)};
  if (auto f = v.find("op")) o.op = static_cast<AtomicOp>(number8(*f));
  if (auto f = v.find("type")) o.type = static_cast<AtomicType>(number8(*f));
  return o;
}

void expect_same(const Operation& got, const Operation& want) {
  EXPECT_EQ(got.opcode, want.opcode);
  EXPECT_EQ(got.flags, want.flags);
  EXPECT_EQ(got.key, want.key);
  EXPECT_EQ(got.offset, want.offset);
  EXPECT_EQ(got.imm, want.imm);
  EXPECT_EQ(got.tag, want.tag);
  EXPECT_EQ(got.id, want.id);
  EXPECT_EQ(got.total, want.total);
  EXPECT_EQ(got.at, want.at);
  EXPECT_EQ(got.limit, want.limit);
  EXPECT_EQ(got.status, want.status);
  EXPECT_EQ(got.psn, want.psn);
  EXPECT_EQ(got.op, want.op);
  EXPECT_EQ(got.type, want.type);
  EXPECT_EQ(to_hex(got.data), to_hex(want.data));
}

void expect_same(const Header& got, const Header& want) {
  EXPECT_EQ(got.type, want.type);
  EXPECT_EQ(got.flags, want.flags);
  EXPECT_EQ(got.window, want.window);
  EXPECT_EQ(got.marks, want.marks);
  EXPECT_EQ(got.connection, want.connection);
  EXPECT_EQ(got.psn, want.psn);
  EXPECT_EQ(got.ack, want.ack);
}

/// The body as the encoders make it of what the vectors tell.
std::vector<std::byte> body_of(const JsonField& v) {
  std::vector<std::byte> body;
  if (auto f = v.find("open")) {
    body.resize(kOpenBody + number32((*f)["zeros"]));
    encode(Open{.id = ConnectionId{number32((*f)["id"])},
                .endpoint = EndpointId{number16((*f)["endpoint"])},
                .peer = EndpointId{number16((*f)["peer"])},
                .mtu = number16((*f)["mtu"]),
                .reads = number16((*f)["reads"]),
                .psn = Psn{number32((*f)["psn"])},
                .messages = number32((*f)["messages"]),
                .eager = number32((*f)["eager"]),
                .options = number32((*f)["options"]),
                .key = hex64((*f)["key"])},
           body.data());
  } else if (auto r = v.find("reject")) {
    body.resize(kRejectBody);
    encode(Reject{static_cast<RejectReason>(number8((*r)["reason"])),
                  ConnectionId{number32((*r)["id"])}},
           body.data());
  } else if (auto c = v.find("close")) {
    body.resize(kCloseBody);
    encode(static_cast<CloseReason>(number8((*c)["reason"])), body.data());
  } else if (auto a = v.find("ack")) {
    std::vector<std::uint32_t> words;
    for (const JsonField& word : (*a)["bitmap"].elements()) words.push_back(number32(word));
    body.resize(4 + 4 * words.size());
    encode_ack(number32((*a)["held"]), words, body.data());
  } else {
    body.resize(8192);
    OperationWriter writer(body);
    for (const JsonField& each : v["operations"].elements()) {
      std::vector<std::byte> data;
      Operation operation = operation_of(each, data);
      const bool near = operation.has_address() && operation.has(kNear);
      writer.choose_address(operation);
      EXPECT_EQ(operation.has_address() && operation.has(kNear), near);
      writer.put_head(operation);
      writer.put_data(operation.data);
    }
    body.resize(writer.size());
  }
  return body;
}

class Vectors : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = JsonFile::load(MTL_TRACES "/transport-vectors.json", kMaxText);
    ASSERT_TRUE(loaded) << loaded.error().message;
    file_ = std::move(*loaded);
  }
  void TearDown() override { EXPECT_FALSE(file_.error()) << file_.error()->message; }
  std::vector<JsonField> list(std::string_view name) {
    auto elements = JsonField{file_}[name].elements();
    EXPECT_FALSE(elements.empty()) << "no " << name;
    return elements;
  }

  JsonFile file_;
};

// Rules: T3 T4 T5 T9 T10 T13 T26 T30
TEST_F(Vectors, EncodesEveryPacketToTheByte) {
  for (const JsonField& v : list("packets")) {
    SCOPED_TRACE(v["name"].text());
    std::vector<std::byte> payload(kHeader);
    encode(header_of(v["header"]), payload.data());
    const auto body = body_of(v);
    payload.insert(payload.end(), body.begin(), body.end());
    EXPECT_EQ(to_hex(payload), v["payload"].text());
    std::vector<std::byte> packet(network::kMinPacket + payload.size());
    network::encode(network_of(v["network"]), packet.data());
    std::copy(payload.begin(), payload.end(), packet.begin() + network::kHeader);
    network::seal(packet);
    EXPECT_EQ(to_hex(packet), v["packet"].text());
  }
}

// Rules: T3 T13 T18
TEST_F(Vectors, DecodesEveryPacket) {
  for (const JsonField& v : list("packets")) {
    SCOPED_TRACE(v["name"].text());
    const auto bytes = v["packet"].bytes();
    const auto packet = decode(bytes);
    ASSERT_TRUE(packet);
    expect_same(packet->header, header_of(v["header"]));
    EXPECT_EQ(packet->network.src, NodeId{number16(v["network"]["src"])});
    EXPECT_EQ(packet->network.partition, Partition{number16(v["network"]["partition"])});
    if (auto f = v.find("open")) {
      const Open open = decode_open(packet->body);
      EXPECT_EQ(open.id.value(), number32((*f)["id"]));
      EXPECT_EQ(open.endpoint.value(), number16((*f)["endpoint"]));
      EXPECT_EQ(open.peer.value(), number16((*f)["peer"]));
      EXPECT_EQ(open.mtu, number16((*f)["mtu"]));
      EXPECT_EQ(open.reads, number16((*f)["reads"]));
      EXPECT_EQ(open.psn.value(), number32((*f)["psn"]));
      EXPECT_EQ(open.messages, number32((*f)["messages"]));
      EXPECT_EQ(open.eager, number32((*f)["eager"]));
      EXPECT_EQ(open.options, number32((*f)["options"]));
      EXPECT_EQ(open.key, hex64((*f)["key"]));
      EXPECT_EQ(packet->body.size(), kOpenBody + number32((*f)["zeros"]));
    } else if (auto r = v.find("reject")) {
      const Reject reject = decode_reject(packet->body);
      EXPECT_EQ(static_cast<int>(reject.reason), number8((*r)["reason"]));
      EXPECT_EQ(reject.id.value(), number32((*r)["id"]));
    } else if (auto a = v.find("ack")) {
      const AckBody ack(packet->body);
      EXPECT_EQ(ack.held(), number32((*a)["held"]));
      std::vector<std::uint32_t> arrived;
      for (std::uint32_t i = 0; i < ack.words() * kWordBits; ++i) {
        if ((ack.word(i / kWordBits) >> i % kWordBits & 1) != 0) {
          arrived.push_back((packet->header.ack + i).value());
        }
      }
      std::vector<std::uint32_t> expected;
      for (const JsonField& psn : (*a)["arrived"].elements()) expected.push_back(number32(psn));
      EXPECT_EQ(arrived, expected);
      const std::uint32_t extent =
          expected.empty() ? 0 : Psn{expected.back()}.since(packet->header.ack) + 1;
      EXPECT_EQ(ack.extent(), extent);
    }
  }
}

// Rules: T15 T26 T28 T29 T30 T31 T33 T34 T35 T36
TEST_F(Vectors, ReadsEveryOperation) {
  for (const JsonField& v : list("packets")) {
    SCOPED_TRACE(v["name"].text());
    if (!v.find("operations")) continue;
    const auto bytes = v["packet"].bytes();
    const auto packet = decode(bytes);
    ASSERT_TRUE(packet);
    const auto expected = v["operations"].elements();
    const auto count = count_operations(packet->flow(), packet->unordered(), packet->body);
    ASSERT_TRUE(count);
    EXPECT_EQ(*count, expected.size());
    OperationReader reader(packet->body);
    Operation got;
    for (const JsonField& each : expected) {
      ASSERT_TRUE(reader.next(got));
      std::vector<std::byte> data;
      expect_same(got, operation_of(each, data));
    }
    EXPECT_FALSE(reader.next(got));
  }
}

// What needs no connection to be refused; the other checks are in refusal_test.cc.
// Rules: T3 T15 T16 T26
TEST_F(Vectors, RefusesWhatIsMalformed) {
  std::map<std::string, int> seen;
  for (const JsonField& v : list("refused")) {
    SCOPED_TRACE(v["name"].text() + ": " + v["about"].text());
    const auto bytes = v["packet"].bytes();
    ASSERT_GE(bytes.size(), network::kMinPacket);
    ASSERT_TRUE(link::packet_crc_ok(bytes));
    const bool malformed = v["check"].text() == "malformed";
    const bool closes = v["effect"].text() == "CLOSE, reason 2";
    const auto packet = decode(bytes);
    EXPECT_EQ(packet.has_value(), !malformed || closes);
    if (!packet || packet->header.type != Type::kData) continue;
    const auto count = count_operations(packet->flow(), packet->unordered(), packet->body);
    EXPECT_EQ(count.has_value(), !malformed);
    ++seen[malformed ? "body" : "other"];
  }
  EXPECT_GE(seen["body"], 14);
}

}  // namespace
}  // namespace mtl::transport
