#include "phy/shared_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/byte_order.h"
#include "base/heap_pool.h"
#include "frames.h"
#include "link/codec.h"

namespace mtl::phy {
namespace {

using test::OutFrame;
using Bytes = std::vector<std::byte>;

constexpr Mac kUs{std::byte{2}, {}, {}, {}, {}, std::byte{0xAA}};
constexpr Mac kOne{std::byte{2}, {}, {}, {}, {}, std::byte{1}};
constexpr Mac kTwo{std::byte{2}, {}, {}, {}, {}, std::byte{2}};

/// A device of frames that the test put there.
class Wire final : public Port {
 public:
  explicit Wire(BufferPool& pool) : pool_(pool) {
    traits_.driver = "wire";
    traits_.device = "w0";
    traits_.max_frame = 1514;
    traits_.wake_fd = 7;
  }
  unsigned receive(std::span<Buffer*> out) override {
    unsigned n = 0;
    for (; n < out.size() && !arrived.empty(); ++n) {
      Buffer* frame = pool_.take();
      std::copy(arrived.front().begin(), arrived.front().end(), frame->data);
      frame->length = static_cast<std::uint32_t>(arrived.front().size());
      frame->tailroom -= frame->length;
      out[n] = frame;
      arrived.pop_front();
    }
    return n;
  }
  unsigned room() override { return free; }
  bool send(const link::FrameOut& frame) override {
    if (refuse) return false;
    Bytes bytes(frame.length());
    frame.write(bytes.data());
    sent.push_back(std::move(bytes));
    untagged_lengths.push_back(frame.length() - frame.tag_length);
    return true;
  }
  void flush() override { ++flushes; }
  bool carrier() override { return has_carrier; }
  bool arm() override { return arrived.empty(); }

  std::deque<Bytes> arrived;
  std::vector<Bytes> sent;
  std::vector<std::uint32_t> untagged_lengths;
  unsigned free = 8;
  int flushes = 0;
  bool refuse = false;
  bool has_carrier = true;

 private:
  BufferPool& pool_;
};

/// A frame from `source`: addresses, a tag for each of `tags` (its two bytes of control), type, and
/// `body` zeros.
Bytes frame(const Mac& source, std::initializer_list<std::uint16_t> tags, std::uint16_t type,
            std::size_t body = 46) {
  Bytes out(12 + 4 * tags.size() + 2 + body);
  std::copy(kUs.begin(), kUs.end(), out.begin());
  std::copy(source.begin(), source.end(), out.begin() + 6);
  std::byte* at = out.data() + 12;
  for (const std::uint16_t tag : tags) {
    store16(at, 0x8100);
    store16(at + 2, tag);
    at += 4;
  }
  store16(at, type);
  return out;
}

class SharedDeviceOf : public testing::Test {
 protected:
  /// The ports on the wire from here on.
  void share(const std::vector<Share>& shares) {
    device_ = std::make_unique<SharedDevice>(wire_, 0x88B5, shares);
  }
  /// What port `i` receives in one call.
  std::vector<Bytes> receive(std::size_t i) {
    std::array<Buffer*, 32> got;
    const unsigned n = device_->port(i).receive(got);
    std::vector<Bytes> out;
    for (unsigned k = 0; k < n; ++k) {
      out.emplace_back(got[k]->data, got[k]->data + got[k]->length);
      give_back(got[k]);
    }
    return out;
  }
  std::uint64_t foreign() const { return device_->counters().drops.get(Drop::kForeign); }

  HeapPool pool_{256, 2048};
  Wire wire_{pool_};
  std::unique_ptr<SharedDevice> device_;
};

Share vlan(std::uint16_t id) {
  return {VlanId(id), std::nullopt};
}
Share peer(const Mac& mac) {
  return {std::nullopt, mac};
}

TEST_F(SharedDeviceOf, P3_FramesAreToldApartByTheirSource) {
  share({peer(kOne), peer(kTwo)});
  wire_.arrived = {frame(kTwo, {}, 0x88B5), frame(kOne, {}, 0x88B5), frame(kTwo, {}, 0x88B5, 60)};
  EXPECT_EQ(receive(0), std::vector<Bytes>{frame(kOne, {}, 0x88B5)});
  EXPECT_EQ(receive(1), (std::vector<Bytes>{frame(kTwo, {}, 0x88B5), frame(kTwo, {}, 0x88B5, 60)}));
  EXPECT_EQ(device_->port(0).counters().frames_in.get(), 1U);
  EXPECT_EQ(device_->port(1).counters().frames_in.get(), 2U);
  EXPECT_EQ(device_->port(1).counters().bytes_in.get(), 60U + 74U);
  EXPECT_EQ(foreign(), 0U);
}

TEST_F(SharedDeviceOf, P3_FramesAreToldApartByTheirVlanAndLoseTheTag) {
  share({vlan(5), vlan(4094), Share{}});
  // Priority and the discard bit, above the id, make no difference; id 0 is priority alone
  // (802.1Q).
  wire_.arrived = {frame(kOne, {5}, 0x88B5), frame(kOne, {0xF000 | 5}, 0x88B5),
                   frame(kOne, {4094}, 0x88B5), frame(kOne, {}, 0x88B5),
                   frame(kTwo, {0xE000}, 0x88B5)};
  EXPECT_EQ(receive(0), (std::vector<Bytes>(2, frame(kOne, {}, 0x88B5))));
  EXPECT_EQ(receive(1), (std::vector<Bytes>{frame(kOne, {}, 0x88B5)}));
  EXPECT_EQ(receive(2), (std::vector<Bytes>{frame(kOne, {}, 0x88B5), frame(kTwo, {}, 0x88B5)}));
}

TEST_F(SharedDeviceOf, P3_AVlanMayHaveSeveralPeers) {
  share({{VlanId(5), kOne}, {VlanId(5), kTwo}, {VlanId(6), kOne}});
  wire_.arrived = {frame(kTwo, {5}, 0x88B5), frame(kOne, {6}, 0x88B5), frame(kTwo, {6}, 0x88B5)};
  EXPECT_TRUE(receive(0).empty());
  EXPECT_EQ(receive(1).size(), 1U);
  EXPECT_EQ(receive(2).size(), 1U);
  EXPECT_EQ(foreign(), 1U);
}

TEST_F(SharedDeviceOf, P3_WhatMatchesNoneIsForeignOnTheDevice) {
  share({peer(kOne), vlan(5)});
  wire_.arrived = {frame(kTwo, {}, 0x88B5),   // a stranger
                   frame(kOne, {6}, 0x88B5),  // another VLAN
                   Bytes(13),                 // no Ethernet header
                   frame(kOne, {}, 0x88B5)};
  EXPECT_EQ(receive(0).size(), 1U);
  EXPECT_TRUE(receive(1).empty());
  EXPECT_EQ(foreign(), 3U);
  EXPECT_EQ(pool_.available(), 256U) << "a dropped frame's buffer is lost";
}

TEST_F(SharedDeviceOf, P2_OtherEtherTypesAreIgnoredAndNotCounted) {
  share({Share{}, vlan(5)});
  wire_.arrived = {frame(kOne, {}, 0x0800), frame(kOne, {5}, 0x86DD), frame(kOne, {5, 7}, 0x88B5),
                   Bytes(frame(kOne, {}, 0x8100, 3))};  // a tag cut short
  EXPECT_TRUE(receive(0).empty());
  EXPECT_TRUE(receive(1).empty());
  EXPECT_EQ(foreign(), 0U);
  EXPECT_EQ(pool_.available(), 256U);
}

TEST_F(SharedDeviceOf, P3_FramesLeaveWithTheTag) {
  share({vlan(0x123), Share{}});
  const OutFrame out(100, 1);
  ASSERT_TRUE(device_->port(0).send(out.frame));
  ASSERT_TRUE(device_->port(1).send(out.frame));
  const Bytes untagged = out.wire();
  Bytes tagged(untagged.begin(), untagged.begin() + 12);
  for (const int byte : {0x81, 0x00, 0x01, 0x23}) tagged.push_back(static_cast<std::byte>(byte));
  tagged.insert(tagged.end(), untagged.begin() + 12, untagged.end());
  EXPECT_EQ(wire_.sent, (std::vector<Bytes>{tagged, untagged}));
  EXPECT_EQ(wire_.untagged_lengths, (std::vector<std::uint32_t>{130, 130}));
  EXPECT_EQ(device_->port(0).counters().frames_out.get(), 1U);
}

TEST_F(SharedDeviceOf, P4_PaddingTo60CountsTheTag) {
  share({vlan(9)});
  // 14 + 16 + 26 + 4 is 60, and one byte less is padded to it.
  for (const std::size_t length : {16u, 25u, 26u, 27u}) {
    const OutFrame out(length, 1);
    ASSERT_TRUE(device_->port(0).send(out.frame));
  }
  std::vector<std::size_t> lengths;
  for (const Bytes& bytes : wire_.sent) lengths.push_back(bytes.size());
  EXPECT_EQ(lengths, (std::vector<std::size_t>{60, 60, 60, 61}));
  const Bytes& padded = wire_.sent.front();
  EXPECT_TRUE(std::all_of(padded.begin() + 50, padded.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(SharedDeviceOf, P4_AnInitIsAsLongAsTheLongestDataWithItsTag) {
  share({vlan(9)});
  link::FrameOut init;
  init.head.fill(std::byte{1});
  init.head_length = link::kFrameHeader + link::kInitBody;
  init.kind = link::Kind::kInit;
  init.min_length = 30 + 64;  // the shortest mtu of a link
  ASSERT_TRUE(device_->port(0).send(init));
  ASSERT_EQ(wire_.sent.size(), 1U);
  EXPECT_EQ(wire_.sent[0].size(), 30U + 64U + 4U);
}

TEST_F(SharedDeviceOf, WhatTheDeviceRefusesIsNotCountedAsSent) {
  share({vlan(9)});
  wire_.refuse = true;
  const OutFrame out(100, 1);
  EXPECT_FALSE(device_->port(0).send(out.frame));
  EXPECT_EQ(device_->port(0).counters().frames_out.get(), 0U);
}

TEST_F(SharedDeviceOf, AFloodForOnePortHoldsTwoBurstsAndStarvesNobody) {
  share({peer(kOne), peer(kTwo)});
  for (int i = 0; i < 200; ++i) wire_.arrived.push_back(frame(kTwo, {}, 0x88B5));
  // Nobody asks for the second port's frames: the first asks in vain, and the rest stay outside.
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(receive(0).empty());
  EXPECT_GE(pool_.available(), 256U - 2 * SharedDevice::kBurst);
  wire_.arrived.push_back(frame(kOne, {}, 0x88B5));
  std::size_t one = 0, two = 0;
  for (int pass = 0; pass < 10; ++pass) {
    one += receive(0).size();
    two += receive(1).size();
  }
  EXPECT_EQ(one, 1U);
  EXPECT_EQ(two, 200U);
}

TEST_F(SharedDeviceOf, WhatIsTheDevicesPassesThrough) {
  share({peer(kOne), peer(kTwo)});
  Port& first = device_->port(0);
  Port& second = device_->port(1);
  EXPECT_EQ(first.traits().device, "w0 peer 02:00:00:00:00:01");
  EXPECT_EQ(second.traits().driver, "wire");
  EXPECT_EQ(second.traits().max_frame, 1514U);
  EXPECT_EQ(second.traits().wake_fd, 7);
  EXPECT_EQ(second.room(), 8U);
  EXPECT_TRUE(second.carrier());
  wire_.has_carrier = false;
  EXPECT_FALSE(second.carrier());
  first.flush();
  second.flush();
  EXPECT_EQ(wire_.flushes, 1) << "once for the device, after all its ports were pulled from";
  // Nobody sleeps on frames that have arrived, outside or here.
  wire_.arrived = {frame(kTwo, {}, 0x88B5)};
  EXPECT_FALSE(first.arm());
  EXPECT_TRUE(receive(0).empty());
  EXPECT_TRUE(first.arm());
  EXPECT_FALSE(second.arm());
}

TEST_F(SharedDeviceOf, FramesThatWaitGoBackAtItsEnd) {
  share({peer(kOne), peer(kTwo)});
  wire_.arrived = {frame(kTwo, {}, 0x88B5)};
  EXPECT_TRUE(receive(0).empty());
  EXPECT_EQ(pool_.available(), 255U);
  device_.reset();
  EXPECT_EQ(pool_.available(), 256U);
}

TEST(ShareOf, TellsWhatItTakesAndWhetherTwoMeet) {
  EXPECT_EQ(Share{}.text(), "");
  EXPECT_EQ(vlan(12).text(), "vlan 12");
  EXPECT_EQ((Share{VlanId(12), kTwo}.text()), "vlan 12, peer 02:00:00:00:00:02");
  EXPECT_TRUE(Share{}.meets(peer(kOne)));
  EXPECT_TRUE(peer(kOne).meets(peer(kOne)));
  EXPECT_FALSE(peer(kOne).meets(peer(kTwo)));
  EXPECT_FALSE(vlan(1).meets(vlan(2)));
  EXPECT_FALSE(vlan(1).meets(Share{}));
  EXPECT_TRUE(vlan(1).meets({VlanId(1), kOne}));
}

}  // namespace
}  // namespace mtl::phy
