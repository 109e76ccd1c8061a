// Packet CRC and path hash of the reference vectors (N2, N8).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "conformance/hex.h"
#include "conformance/json_field.h"
#include "network/packet.h"

namespace mtl::network {
namespace {

using conformance::JsonField;
using conformance::JsonFile;
using conformance::number_as;
using conformance::to_hex;

constexpr std::size_t kMaxText = std::size_t{1} << 20;
constexpr std::uint64_t kMax16 = 0xFFFF;

class Vectors : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = JsonFile::load(MTL_TRACES "/vectors.json", kMaxText);
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

TEST_F(Vectors, N2_SealsEveryPacket) {
  for (const JsonField& v : list("packet_crc")) {
    const auto packet = v["packet"].bytes();
    ASSERT_GE(packet.size(), kMinPacket);
    EXPECT_EQ(to_hex(std::span{packet}.last(kCrc)), v["crc"].text());
    auto sealed = packet;
    std::fill(sealed.end() - kCrc, sealed.end(), std::byte{0});
    seal(sealed);
    EXPECT_EQ(to_hex(sealed), to_hex(packet));
  }
}

TEST_F(Vectors, N2_GuardsAllButTheFirstTwoBytes) {
  for (const JsonField& v : list("packet_crc")) {
    const auto packet = v["packet"].bytes();
    ASSERT_GE(packet.size(), kMinPacket);
    EXPECT_TRUE(link::packet_crc_ok(packet));
    for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
      auto changed = packet;
      changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      const bool on_the_way = bit / 8 < 2;  // hop_limit and flags
      EXPECT_EQ(link::packet_crc_ok(changed), on_the_way) << to_hex(packet) << ", bit " << bit;
    }
  }
}

TEST_F(Vectors, N8_HashAndIndex) {
  for (const JsonField& v : list("hash")) {
    const Header header{.dst = NodeId{number_as<std::uint16_t>(v["dst"], 0, kMax16)},
                        .src = NodeId{number_as<std::uint16_t>(v["src"], 0, kMax16)},
                        .entropy = number_as<std::uint16_t>(v["entropy"], 0, kMax16)};
    std::array<std::byte, kMinPacket> packet{};
    encode(header, packet.data());
    const NodeId node{number_as<std::uint16_t>(v["node"], 0, kMax16)};
    const std::uint32_t hash = path_hash(packet, node);
    std::array<std::byte, 4> out{};
    store32(out.data(), hash);
    EXPECT_EQ(to_hex(out), v["hash"].text());
    EXPECT_EQ(pick(hash, number_as<std::uint32_t>(v["n"], 1, kMax16)),
              v["index"].number(0, kMax16));
  }
}

/// N8 is over bytes 4 to 9 alone: what changes on the way, class, proto, partition and payload
/// leave the path.
TEST_F(Vectors, N8_LooksAtDstSrcAndEntropyAlone) {
  std::vector<std::byte> packet(kMinPacket + 8, std::byte{0x5A});
  const std::uint32_t hash = path_hash(packet, NodeId{7});
  for (std::size_t at = 0; at < packet.size(); ++at) {
    auto changed = packet;
    changed[at] ^= std::byte{1};
    EXPECT_EQ(path_hash(changed, NodeId{7}) == hash, at < 4 || at > 9) << "byte " << at;
  }
  EXPECT_NE(path_hash(packet, NodeId{8}), hash);
}

}  // namespace
}  // namespace mtl::network
