// The frames of the reference vectors, both ways, and the CRC that guards them (L1, L2, L3).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "conformance/hex.h"
#include "conformance/json_field.h"
#include "link/codec.h"
#include "link/frame_out.h"

namespace mtl::link {
namespace {

using conformance::from_hex;
using conformance::JsonField;
using conformance::JsonFile;
using conformance::number_as;
using conformance::to_hex;

constexpr std::size_t kMaxText = std::size_t{1} << 20;
constexpr std::uint16_t kMtu = 4096;
constexpr std::size_t kCoveredHeader = 12;  // bytes of the link header that its CRC covers

struct Vector {
  std::string about;
  Mac destination{};
  Mac source{};
  Header header;
  std::uint8_t version = 0;
  std::vector<std::byte> body;
  std::vector<std::byte> crc_covers;
  std::vector<std::byte> crc;
  std::vector<std::byte> frame;
  std::vector<std::byte> unpadded;
};

Mac mac_of(const std::vector<std::byte>& bytes) {
  Mac mac{};
  EXPECT_EQ(bytes.size(), mac.size());
  std::copy_n(bytes.begin(), std::min(bytes.size(), mac.size()), mac.begin());
  return mac;
}

Vector read_vector(const JsonField& field) {
  Vector v;
  v.about = field["kind"].text() + ", " + field["about"].text();
  v.destination = mac_of(field["dst_mac"].bytes());
  v.source = mac_of(field["src_mac"].bytes());
  const JsonField fields = field["fields"];
  v.version = number_as<std::uint8_t>(fields["version"], 0, 15);
  v.header.kind = static_cast<Kind>(fields["kind"].number(0, 4));
  v.header.epoch = number_as<std::uint8_t>(fields["epoch"], 0, 255);
  v.header.length = number_as<std::uint16_t>(fields["length"], 0, 65535);
  v.header.seq = Seq{number_as<std::uint16_t>(fields["seq"], 0, 65535)};
  v.header.ack = Seq{number_as<std::uint16_t>(fields["ack"], 0, 65535)};
  v.header.vc = Vc{number_as<std::uint8_t>(fields["vc"], 0, 7)};
  v.header.credit_vc = number_as<std::uint8_t>(fields["credit_vc"], 0, 15);
  v.header.flags = number_as<std::uint8_t>(fields["flags"], 0, 255);
  v.header.credit = CellCount{number_as<std::uint16_t>(fields["credit"], 0, 65535)};
  v.body = field["body"].bytes();
  v.crc_covers = field["header_crc_covers"].bytes();
  v.crc = field["header_crc"].bytes();
  v.frame = field["frame"].bytes();
  v.unpadded = field["frame_without_padding"].bytes();
  return v;
}

class Vectors : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = JsonFile::load(MTL_TRACES "/vectors.json", kMaxText);
    ASSERT_TRUE(loaded) << loaded.error().message;
    file_ = std::move(*loaded);
    for (const JsonField& field : JsonField{file_}["frames"].elements()) {
      frames_.push_back(read_vector(field));
    }
    ASSERT_FALSE(file_.error()) << file_.error()->message;
    ASSERT_FALSE(frames_.empty());
  }
  /// The first frame of a kind.
  const Vector& first(Kind kind) const {
    for (const Vector& v : frames_) {
      if (v.header.kind == kind) return v;
    }
    ADD_FAILURE() << "no vector of kind " << name(kind);
    return frames_.front();
  }

  JsonFile file_;
  std::vector<Vector> frames_;
};

TEST_F(Vectors, Crc32cOfEveryImplementation) {
  const auto vectors = JsonField{file_}["crc32c"].elements();
  ASSERT_FALSE(vectors.empty());
  for (const JsonField& v : vectors) {
    const auto data = v["data"].bytes();
    const std::string crc = v["crc"].text();
    const auto hex = [](std::uint32_t value) {
      std::array<std::byte, 4> out{};
      store32(out.data(), value);
      return to_hex(out);
    };
    EXPECT_EQ(hex(crc32c_portable(data)), crc) << v["data"].text();
    EXPECT_EQ(hex(crc32c_short(data)), crc) << v["data"].text();
    EXPECT_EQ(hex(crc32c(data)), crc) << v["data"].text();
    for (std::size_t cut = 0; cut <= data.size(); cut += 1 + data.size() / 16) {
      const std::span all{data};
      EXPECT_EQ(hex(crc32c_short(all.first(cut), all.subspan(cut))), crc) << "cut at " << cut;
    }
  }
  EXPECT_FALSE(file_.error()) << file_.error()->message;
}

TEST_F(Vectors, L1_EncodesEveryFrame) {
  for (const Vector& v : frames_) {
    std::vector<std::byte> out(kFrameHeader + v.body.size());
    encode_ethernet(v.destination, v.source, kDefaultEtherType, out.data());
    encode(v.header, v.body, out.data() + kEthernetHeader);
    std::copy(v.body.begin(), v.body.end(), out.begin() + kFrameHeader);
    EXPECT_EQ(to_hex(out), to_hex(v.unpadded)) << v.about;
  }
}

TEST_F(Vectors, L3_DecodesEveryFramePaddedAndNot) {
  for (const Vector& v : frames_) {
    // An Ethernet frame of ours has 60 bytes at least, but the length rules, not the padding (P4).
    for (const auto* frame : {&v.frame, &v.unpadded}) {
      const auto result = decode(*frame, kMtu);
      ASSERT_FALSE(result.drop) << v.about << ": " << name(*result.drop);
      const Header& h = result.frame.header;
      EXPECT_EQ(v.version, 1) << v.about;
      EXPECT_EQ(h.kind, v.header.kind) << v.about;
      EXPECT_EQ(h.epoch, v.header.epoch) << v.about;
      EXPECT_EQ(h.length, v.header.length) << v.about;
      EXPECT_EQ(h.seq, v.header.seq) << v.about;
      EXPECT_EQ(h.ack, v.header.ack) << v.about;
      EXPECT_EQ(h.vc, v.header.vc) << v.about;
      EXPECT_EQ(h.credit_vc, v.header.credit_vc) << v.about;
      EXPECT_EQ(h.flags, v.header.flags) << v.about;
      EXPECT_EQ(h.credit, v.header.credit) << v.about;
      EXPECT_EQ(to_hex(result.frame.body), to_hex(v.body)) << v.about;
    }
  }
}

/// L1: one bit changed anywhere in what the header CRC covers, or in the CRC, and the frame is
/// refused.
TEST_F(Vectors, L1_EveryCoveredBitIsGuarded) {
  for (const Vector& v : frames_) {
    const std::size_t covered_body = v.crc_covers.size() - kCoveredHeader;
    const std::size_t end = kFrameHeader + covered_body;
    for (std::size_t bit = 8 * kEthernetHeader; bit < 8 * end; ++bit) {
      auto frame = v.frame;
      frame[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      const auto result = decode(frame, kMtu);
      ASSERT_TRUE(result.drop) << v.about << ", bit " << bit;
      const bool in_crc = bit / 8 >= kFrameHeader - 4 && bit / 8 < kFrameHeader;
      if (in_crc) {
        EXPECT_EQ(*result.drop, Drop::kBadHeaderCrc) << v.about << ", bit " << bit;
      }
    }
    // What the page does not cover is guarded by the packet CRC, or is padding.
    for (std::size_t at = end; at < v.frame.size(); ++at) {
      auto frame = v.frame;
      frame[at] ^= std::byte{1};
      EXPECT_FALSE(decode(frame, kMtu).drop) << v.about << ", byte " << at;
    }
  }
}

TEST_F(Vectors, P4_PadsWithZerosToTheFrame) {
  for (const Vector& v : frames_) {
    if (v.header.kind == Kind::kData) continue;  // their packet is a Buffer of its own
    FrameOut out;
    std::copy(v.unpadded.begin(), v.unpadded.end(), out.head.begin());
    out.head_length = static_cast<std::uint32_t>(v.unpadded.size());
    out.min_length = static_cast<std::uint32_t>(v.frame.size());
    std::vector<std::byte> written(out.length(), std::byte{0xFF});
    EXPECT_EQ(out.write(written.data()), v.frame.size()) << v.about;
    EXPECT_EQ(to_hex(written), to_hex(v.frame)) << v.about;
  }
}

TEST_F(Vectors, InitBodyBothWays) {
  // The first INIT of the vectors, read by the table of section 3.1.
  const Vector& v = first(Kind::kInit);
  ASSERT_EQ(to_hex(v.body),
            "12345678000000000007000210001108010004000040002000100010004000200010001000000000");
  const Init init = decode_init(v.body);
  EXPECT_EQ(init.nonce, 0x12345678U);
  EXPECT_EQ(init.peer_nonce, 0U);
  EXPECT_EQ(init.node, NodeId{7});
  EXPECT_EQ(init.port, PortId{2});
  EXPECT_EQ(init.mtu, 0x1000);
  EXPECT_EQ(init.epoch, 0x11);
  EXPECT_EQ(init.vcs, 8);
  EXPECT_EQ(init.cell, 0x100);
  EXPECT_EQ(init.window, 0x400);
  const std::array<std::uint16_t, kVcs> capacity{0x40, 0x20, 0x10, 0x10, 0x40, 0x20, 0x10, 0x10};
  EXPECT_EQ(init.capacity, capacity);
  EXPECT_EQ(init.capabilities, 0U);
  for (const Vector& each : frames_) {
    if (each.header.kind != Kind::kInit) continue;
    std::array<std::byte, kInitBody> out{};
    encode(decode_init(each.body), out.data());
    EXPECT_EQ(to_hex(out), to_hex(each.body)) << each.about;
  }
}

TEST_F(Vectors, StatusBodyBothWays) {
  std::size_t seen = 0;
  for (const Vector& v : frames_) {
    if (v.header.kind != Kind::kStatus) continue;
    const Status status = decode_status(v.body);
    std::array<std::byte, kStatusBody> out{};
    encode(status, out.data());
    EXPECT_EQ(to_hex(out), to_hex(v.body)) << v.about;
    if (to_hex(v.body) == "ffff0000000100020003000400050006ffffffffdeadbeef") {
      ++seen;
      const std::array<std::uint16_t, kVcs> allocation{0xFFFF, 0, 1, 2, 3, 4, 5, 6};
      for (std::size_t vc = 0; vc < kVcs; ++vc) {
        EXPECT_EQ(status.allocation[vc], CellCount{allocation[vc]}) << "vc " << vc;
      }
      EXPECT_EQ(status.t_tx, 0xFFFFFFFFU);
      EXPECT_EQ(status.t_echo, 0xDEADBEEFU);
    }
  }
  EXPECT_EQ(seen, 1U) << "the vector whose fields are written out here is gone";
}

TEST_F(Vectors, NackBodyBothWays) {
  const Vector& two = first(Kind::kNack);
  ASSERT_EQ(to_hex(two.body), "fffa000300010001");
  EXPECT_EQ(decode_range(two.body, 0).first, Seq{0xFFFA});
  EXPECT_EQ(decode_range(two.body, 0).count, 3);
  EXPECT_EQ(decode_range(two.body, 1).first, Seq{1});
  EXPECT_EQ(decode_range(two.body, 1).count, 1);
  for (const Vector& v : frames_) {
    if (v.header.kind != Kind::kNack) continue;
    std::vector<NackRange> ranges;
    for (std::size_t i = 0; i < v.body.size() / kNackRange; ++i) {
      ranges.push_back(decode_range(v.body, i));
    }
    std::vector<std::byte> out(v.body.size());
    encode(std::span<const NackRange>{ranges}, out.data());
    EXPECT_EQ(to_hex(out), to_hex(v.body)) << v.about;
  }
}

}  // namespace
}  // namespace mtl::link
