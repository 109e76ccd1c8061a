// The port over DPDK's in-process devices: rings between two ports, and net_null.
#include "phy/dpdk/ethdev_port.h"

#include <gtest/gtest.h>
#include <rte_eth_ring.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstring>

#include "base/heap_pool.h"
#include "support.h"

namespace mtl::phy {
namespace {

using test::content;
using test::frame_of;
using test::noise;
using test::packet_of;
using test::wire;

constexpr std::uint32_t kRoom = 2048;
constexpr std::uint32_t kMaxFrame = 1514;

std::unique_ptr<MbufPool> make_pool(std::uint32_t room = kRoom) {
  auto pool = MbufPool::create({.count = 600, .room = room});
  EXPECT_TRUE(pool) << (pool ? "" : pool.error().message);
  return std::move(*pool);
}

rte_ring* make_ring(unsigned slots) {
  static unsigned serial = 0;
  return rte_ring_create(("t" + std::to_string(serial++)).c_str(), slots, SOCKET_ID_ANY,
                         RING_F_SP_ENQ | RING_F_SC_DEQ);
}

/// A port that transmits into ring `out` and receives from ring `in`.
class RingPort : public ::testing::Test {
 protected:
  void SetUp() override { open(kRoom); }

  void open(std::uint32_t room, unsigned slots = 64) {
    close();
    pool_ = make_pool(room);
    in_ = make_ring(64);
    out_ = make_ring(slots);
    static unsigned serial = 0;
    const int id =
        rte_eth_from_rings(("t" + std::to_string(serial++)).c_str(), &in_, 1, &out_, 1, 0);
    ASSERT_GE(id, 0);
    EthdevOptions options;
    options.device = "test";
    options.max_frame = std::min(kMaxFrame, room);
    auto port = EthdevPort::open(static_cast<std::uint16_t>(id), *pool_, options);
    ASSERT_TRUE(port) << port.error().message;
    port_ = std::move(*port);
  }

  void close() {
    port_.reset();
    for (rte_ring* ring : {in_, out_}) {
      if (ring == nullptr) continue;
      while (rte_mbuf* mbuf = take_from(ring)) rte_pktmbuf_free(mbuf);
      rte_ring_free(ring);
    }
    in_ = out_ = nullptr;
    if (pool_ != nullptr) {
      EXPECT_EQ(pool_->free_buffers(), pool_->size()) << "buffers leaked";
    }
    pool_.reset();
  }
  void TearDown() override { close(); }

  static rte_mbuf* take_from(rte_ring* ring) {
    void* mbuf = nullptr;
    return rte_ring_dequeue(ring, &mbuf) == 0 ? static_cast<rte_mbuf*>(mbuf) : nullptr;
  }
  /// The next frame that the device was given, or nothing.
  std::vector<std::byte> sent() {
    rte_mbuf* mbuf = take_from(out_);
    if (mbuf == nullptr) return {};
    const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
    std::vector<std::byte> bytes(data, data + mbuf->pkt_len);
    rte_pktmbuf_free(mbuf);
    return bytes;
  }

  std::unique_ptr<MbufPool> pool_;
  rte_ring* in_ = nullptr;
  rte_ring* out_ = nullptr;
  std::unique_ptr<EthdevPort> port_;
};

TEST_F(RingPort, SendsHeaderPacketAndZeros) {
  for (const std::size_t size : {16u, 29u, 30u, 31u, 400u, kMaxFrame - 30u}) {
    const auto body = noise(size, static_cast<unsigned>(size));
    Buffer* packet = packet_of(*pool_, body);
    ASSERT_NE(packet, nullptr);
    packet->data[size] = std::byte{0xEE};  // padding must not show what lay behind the packet
    const auto frame = frame_of(packet, 0x11);
    ASSERT_GE(port_->room(), 1u);
    ASSERT_TRUE(port_->send(frame));
    port_->flush();
    EXPECT_EQ(sent(), wire(frame, body)) << size;
    EXPECT_EQ(content(*packet), body) << "the link's packet is as it was";
    give_back(packet);
  }
  EXPECT_EQ(port_->counters().frames_out.get(), 6u);
}

// As by an interface whose MTU shrinks: what the device does not take, and never will, must not
// stay before the others.
TEST_F(RingPort, GatheredFramesThatGotTooLongAreDropped) {
  open(kRoom, 8);
  link::FrameOut frame = frame_of(nullptr, 0x33);
  frame.head_length = link::kFrameHeader;
  const auto send = [&](std::uint32_t length) {
    frame.min_length = length;
    return port_->send(frame);
  };
  while (port_->counters().send_full.get() == 0) {
    ASSERT_TRUE(send(60));
    port_->flush();
  }
  ASSERT_TRUE(send(1000));
  ASSERT_TRUE(send(1001));
  ASSERT_TRUE(send(61));
  frame.head[12] = std::byte{0x81};  // a tag, which the limit does not count
  frame.head[13] = std::byte{0x00};
  frame.tag_length = 4;
  ASSERT_TRUE(send(1004));
  ASSERT_TRUE(send(1005));
  port_->set_frame_limit(1000);
  port_->flush();
  EXPECT_EQ(port_->counters().drops.get(Drop::kTooLong), 2u);
  std::vector<std::size_t> lengths;
  for (auto bytes = sent(); !bytes.empty(); bytes = sent()) {
    if (bytes.size() > 60) lengths.push_back(bytes.size());
    port_->flush();
  }
  EXPECT_EQ(lengths, (std::vector<std::size_t>{1000, 61, 1004}));
}

TEST_F(RingPort, SendsControlFramesPaddedToTheLengthAskedFor) {
  link::FrameOut frame = frame_of(nullptr, 0x22);
  frame.head_length = link::kFrameHeader + link::kInitBody;
  std::fill(frame.head.begin() + link::kFrameHeader, frame.head.end(), std::byte{0x33});
  frame.min_length = kMaxFrame;  // as an INIT is padded (P4)
  ASSERT_TRUE(port_->send(frame));
  port_->flush();
  EXPECT_EQ(sent(), wire(frame, {}));
}

TEST_F(RingPort, DriverThatHandsMemoryOverGetsACopy) {
  const auto body = noise(100, 1);
  Buffer* packet = packet_of(*pool_, body);
  ASSERT_TRUE(port_->send(frame_of(packet, 0x11)));
  port_->flush();
  rte_mbuf* mbuf = take_from(out_);
  ASSERT_NE(mbuf, nullptr);
  EXPECT_NE(mbuf, MbufPool::mbuf(*packet));
  EXPECT_TRUE(pool_->exclusive(*packet));
  rte_pktmbuf_free(mbuf);
  give_back(packet);
}

TEST_F(RingPort, CopiesPacketsOfOtherPools) {
  HeapPool heap(1, 512);
  const auto body = noise(300, 2);
  Buffer* packet = packet_of(heap, body);
  const auto frame = frame_of(packet, 0x44);
  ASSERT_TRUE(port_->send(frame));
  port_->flush();
  EXPECT_EQ(sent(), wire(frame, body));
  give_back(packet);
}

TEST_F(RingPort, RefusesAndCountsFramesLongerThanTheDeviceCarries) {
  Buffer* packet = packet_of(*pool_, noise(kMaxFrame - 30 + 1, 3));
  EXPECT_FALSE(port_->send(frame_of(packet, 0x11)));
  EXPECT_EQ(port_->counters().drops.get(Drop::kTooLong), 1u);
  port_->flush();
  EXPECT_TRUE(sent().empty());
  give_back(packet);
}

TEST_F(RingPort, UnsentFramesStayInOrderAndRoomShowsThem) {
  open(kRoom, 8);  // a ring of 8 holds 7 frames
  ASSERT_EQ(port_->room(), 32u);
  std::vector<link::FrameOut> frames;
  for (std::uint8_t i = 0; i < 20; ++i) {
    frames.push_back(frame_of(nullptr, static_cast<std::uint8_t>(i + 1)));
    ASSERT_TRUE(port_->send(frames.back()));
  }
  port_->flush();
  EXPECT_EQ(port_->room(), 32u - 13u);
  EXPECT_EQ(port_->counters().frames_out.get(), 7u);
  EXPECT_EQ(port_->counters().send_full.get(), 1u);
  std::size_t next = 0;
  while (next < frames.size()) {
    const auto bytes = sent();
    if (bytes.empty()) {
      const auto before = port_->counters().frames_out.get();
      port_->flush();
      ASSERT_GT(port_->counters().frames_out.get(), before);
      continue;
    }
    ASSERT_EQ(bytes, wire(frames[next], {})) << next;
    ++next;
  }
  port_->flush();
  EXPECT_TRUE(sent().empty()) << "a frame was sent twice";
  EXPECT_EQ(port_->room(), 32u);
}

TEST_F(RingPort, NobodySleepsOnFramesThatTheDeviceHasNotTaken) {
  open(kRoom, 8);  // a ring of 8 holds 7 frames
  EXPECT_TRUE(port_->arm());
  for (unsigned i = 0; i < 10; ++i) ASSERT_TRUE(port_->send(frame_of(nullptr, 1)));
  port_->flush();
  EXPECT_FALSE(port_->arm());
  while (!sent().empty()) {
  }
  port_->flush();
  EXPECT_TRUE(port_->arm());
}

TEST_F(RingPort, SendSaysFalseWhenTheDeviceIsFullAndLosesNothing) {
  open(kRoom, 8);
  unsigned accepted = 0;
  while (port_->room() > 0 && accepted < 1000) {
    ASSERT_TRUE(port_->send(frame_of(nullptr, 1)));
    ++accepted;
  }
  EXPECT_EQ(accepted, 7u + 32u);
  EXPECT_FALSE(port_->send(frame_of(nullptr, 1)));
  unsigned out = 0;
  for (unsigned i = 0; i < 20; ++i) {
    while (!sent().empty()) ++out;
    port_->flush();
  }
  EXPECT_EQ(out, accepted);
}

TEST_F(RingPort, WithoutCarrierNothingIsKeptAndWhatWasGatheredIsCounted) {
  ASSERT_TRUE(port_->send(frame_of(nullptr, 1)));
  ASSERT_TRUE(port_->send(frame_of(nullptr, 2)));
  port_->set_carrier(false);
  EXPECT_FALSE(port_->carrier());
  EXPECT_EQ(port_->room(), 0u);
  port_->flush();
  EXPECT_EQ(port_->counters().drops.get(Drop::kNotSent), 2u);
  port_->set_carrier(true);
  port_->flush();
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(port_->room(), 32u);
}

TEST_F(RingPort, ExhaustedPoolIsCountedAndRepairable) {
  std::vector<Buffer*> all;
  while (Buffer* buffer = pool_->take()) all.push_back(buffer);
  EXPECT_FALSE(port_->send(frame_of(nullptr, 1)));
  EXPECT_EQ(port_->counters().drops.get(Drop::kNoBuffer), 1u);
  for (Buffer* buffer : all) give_back(buffer);
  EXPECT_TRUE(port_->send(frame_of(nullptr, 1)));
}

TEST_F(RingPort, ReceivedFramesAreTheDriversMbufs) {
  const auto bytes = noise(200, 5);
  rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_->mempool());
  std::memcpy(rte_pktmbuf_append(mbuf, 200), bytes.data(), 200);
  ASSERT_EQ(rte_ring_enqueue(in_, mbuf), 0);
  std::array<Buffer*, 8> out{};
  ASSERT_EQ(port_->receive(out), 1u);
  EXPECT_EQ(content(*out[0]), bytes);
  EXPECT_EQ(MbufPool::mbuf(*out[0]), mbuf);
  EXPECT_GE(out[0]->headroom + 30, kHeadroom);
  EXPECT_EQ(port_->counters().frames_in.get(), 1u);
  EXPECT_EQ(port_->counters().bytes_in.get(), 200u);
  give_back(out[0]);
  EXPECT_EQ(port_->receive(out), 0u);
}

TEST_F(RingPort, ReceivesNoMoreThanAskedFor) {
  for (unsigned i = 0; i < 5; ++i) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_->mempool());
    rte_pktmbuf_append(mbuf, 60);
    ASSERT_EQ(rte_ring_enqueue(in_, mbuf), 0);
  }
  std::array<Buffer*, 8> out{};
  EXPECT_EQ(port_->receive(std::span(out).first(3)), 3u);
  EXPECT_EQ(out[3], nullptr);
  EXPECT_EQ(port_->receive(std::span(out).subspan(3)), 2u);
  for (unsigned i = 0; i < 5; ++i) give_back(out[i]);
}

TEST_F(RingPort, FramesInSeveralPiecesAreJoined) {
  const auto bytes = noise(1500, 6);
  rte_mbuf* head = nullptr;
  for (std::size_t at = 0; at < bytes.size(); at += 500) {
    rte_mbuf* piece = rte_pktmbuf_alloc(pool_->mempool());
    std::memcpy(rte_pktmbuf_append(piece, 500), bytes.data() + at, 500);
    if (head == nullptr) {
      head = piece;
    } else {
      ASSERT_EQ(rte_pktmbuf_chain(head, piece), 0);
    }
  }
  ASSERT_EQ(rte_ring_enqueue(in_, head), 0);
  std::array<Buffer*, 8> out{};
  ASSERT_EQ(port_->receive(out), 1u);
  EXPECT_EQ(content(*out[0]), bytes);
  EXPECT_EQ(MbufPool::mbuf(*out[0])->nb_segs, 1);
  give_back(out[0]);
}

TEST_F(RingPort, PiecesThatTogetherExceedABufferAreDroppedAndCounted) {
  rte_mbuf* head = rte_pktmbuf_alloc(pool_->mempool());
  rte_mbuf* tail = rte_pktmbuf_alloc(pool_->mempool());
  ASSERT_NE(rte_pktmbuf_append(head, 2000), nullptr);
  ASSERT_NE(rte_pktmbuf_append(tail, 49), nullptr);  // 2049: one more than the room
  ASSERT_EQ(rte_pktmbuf_chain(head, tail), 0);
  ASSERT_EQ(rte_ring_enqueue(in_, head), 0);
  std::array<Buffer*, 8> out{};
  EXPECT_EQ(port_->receive(out), 0u);
  EXPECT_EQ(port_->counters().drops.get(Drop::kTooLong), 1u);
  EXPECT_EQ(port_->counters().frames_in.get(), 0u);
}

TEST_F(RingPort, FramesOfAnotherPoolAreCopiedIntoThePortsOwn) {
  const auto other = make_pool();
  const auto bytes = noise(100, 7);
  rte_mbuf* mbuf = rte_pktmbuf_alloc(other->mempool());
  std::memcpy(rte_pktmbuf_append(mbuf, 100), bytes.data(), 100);
  ASSERT_EQ(rte_ring_enqueue(in_, mbuf), 0);
  std::array<Buffer*, 8> out{};
  ASSERT_EQ(port_->receive(out), 1u);
  EXPECT_EQ(content(*out[0]), bytes);
  EXPECT_EQ(out[0]->pool, pool_.get());
  EXPECT_EQ(other->free_buffers(), other->size());
  give_back(out[0]);
}

class NullPort : public ::testing::Test {
 protected:
  void SetUp() override {
    pool_ = make_pool();
    EthdevOptions options;
    options.max_frame = kMaxFrame;
    auto port = open_ethdev("net_null_mtl,no-rx=1", *pool_, options);
    ASSERT_TRUE(port) << port.error().message;
    port_ = std::move(*port);
  }
  void TearDown() override {
    port_.reset();
    EXPECT_EQ(pool_->free_buffers(), pool_->size());
  }
  std::unique_ptr<MbufPool> pool_;
  std::unique_ptr<EthdevPort> port_;
};

TEST_F(NullPort, SendsFromThePacketsOwnMemoryWhileReferenced) {
  const auto body = noise(10 + link::kMinPacket, 8);
  Buffer* packet = packet_of(*pool_, body);
  const Buffer before = *packet;
  const auto frame = frame_of(packet, 0x55);
  const auto free = pool_->free_buffers();
  ASSERT_TRUE(port_->send(frame));
  EXPECT_EQ(pool_->free_buffers(), free) << "copied";
  EXPECT_FALSE(pool_->exclusive(*packet));
  const rte_mbuf* mbuf = MbufPool::mbuf(*packet);
  const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
  EXPECT_EQ(std::vector<std::byte>(data, data + mbuf->pkt_len), wire(frame, body));
  EXPECT_EQ(mbuf->pkt_len, mbuf->data_len);
  // The Buffer still describes the packet.
  EXPECT_EQ(packet->data, before.data);
  EXPECT_EQ(packet->length, before.length);
  EXPECT_EQ(packet->headroom, before.headroom);
  EXPECT_EQ(packet->tailroom, before.tailroom);
  port_->flush();
  EXPECT_TRUE(pool_->exclusive(*packet));
  give_back(packet);
}

TEST_F(NullPort, ReplayWhileReferencedMakesACopyAndLeavesTheFirstHeaderAlone) {
  const auto body = noise(200, 9);
  Buffer* packet = packet_of(*pool_, body);
  const auto first = frame_of(packet, 0x66);
  ASSERT_TRUE(port_->send(first));
  const auto free = pool_->free_buffers();
  ASSERT_TRUE(port_->send(frame_of(packet, 0x77)));
  EXPECT_EQ(pool_->free_buffers(), free - 1);
  const rte_mbuf* mbuf = MbufPool::mbuf(*packet);
  const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
  EXPECT_EQ(std::vector<std::byte>(data, data + mbuf->pkt_len), wire(first, body));
  port_->flush();
  EXPECT_EQ(pool_->free_buffers(), free);
  EXPECT_TRUE(pool_->exclusive(*packet));
  give_back(packet);
}

TEST_F(NullPort, ForwardedFrameGoesOutFromWhereItCameIn) {
  // As a frame that was received, its headers taken off, and its padding too.
  const auto bytes = noise(60, 10);
  Buffer* packet = packet_of(*pool_, bytes);
  packet->pull(30);
  packet->trim(20);
  const std::vector<std::byte> body(bytes.begin() + 30, bytes.begin() + 50);
  const auto frame = frame_of(packet, 0x12);
  ASSERT_TRUE(port_->send(frame));
  const rte_mbuf* mbuf = MbufPool::mbuf(*packet);
  const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
  EXPECT_EQ(std::vector<std::byte>(data, data + mbuf->pkt_len), wire(frame, body));
  port_->flush();
  give_back(packet);
}

TEST_F(NullPort, NoRoomForThePaddingMakesACopy) {
  const auto body = noise(16, 11);
  Buffer* packet = packet_of(*pool_, body);
  packet->tailroom = 13;  // 14 zeros are to follow
  const auto frame = frame_of(packet, 0x13);
  const auto free = pool_->free_buffers();
  ASSERT_TRUE(port_->send(frame));
  EXPECT_EQ(pool_->free_buffers(), free - 1);
  EXPECT_TRUE(pool_->exclusive(*packet));
  port_->flush();
  give_back(packet);
}

TEST_F(NullPort, NoRoomForTheHeaderMakesACopy) {
  Buffer* packet = packet_of(*pool_, noise(100, 12));
  packet->headroom = 29;
  const auto free = pool_->free_buffers();
  ASSERT_TRUE(port_->send(frame_of(packet, 0x14)));
  EXPECT_EQ(pool_->free_buffers(), free - 1);
  port_->flush();
  give_back(packet);
}

TEST_F(NullPort, ClosingGivesBackWhatWasGathered) {
  Buffer* packet = packet_of(*pool_, noise(100, 13));
  ASSERT_TRUE(port_->send(frame_of(packet, 0x14)));
  ASSERT_TRUE(port_->send(frame_of(nullptr, 0x15)));
  port_.reset();
  EXPECT_TRUE(pool_->exclusive(*packet));
  give_back(packet);
}

/// A bond, which may be on NICs: these read memory by themselves, by addresses that memory apart
/// from DPDK's does not have.
class BondPort : public ::testing::Test {
 protected:
  static constexpr MbufPoolConfig kApart{.count = 600, .room = kRoom, .apart = true};
  static void SetUpTestSuite() { ASSERT_TRUE(attach("net_null_member,no-rx=1")); }
  static Result<std::unique_ptr<EthdevPort>> open(MbufPool& pool) {
    EthdevOptions options;
    options.max_frame = kMaxFrame;
    return open_ethdev("net_bonding_mtl,mode=1,slave=net_null_member", pool, options);
  }
};

TEST_F(BondPort, WhatItsMembersMayNotReachIsCopied) {
  const auto pool = make_pool();
  const auto reachable = make_pool();
  const auto apart = std::move(*MbufPool::create(kApart));
  auto port = open(*pool);
  ASSERT_TRUE(port) << port.error().message;
  ASSERT_EQ((*port)->traits().driver, "net_bonding");
  Buffer* const near = packet_of(*reachable, noise(200, 1));
  Buffer* const far = packet_of(*apart, noise(200, 2));
  ASSERT_TRUE((*port)->send(frame_of(near, 0x21)));
  EXPECT_FALSE(reachable->exclusive(*near));
  ASSERT_TRUE((*port)->send(frame_of(far, 0x22)));
  EXPECT_TRUE(apart->exclusive(*far));
  port->reset();
  give_back(near);
  give_back(far);
  EXPECT_EQ(pool->free_buffers(), pool->size());
}

TEST_F(BondPort, BuffersThatItsMembersMayNotReachAreRefused) {
  const auto apart = std::move(*MbufPool::create(kApart));
  const auto port = open(*apart);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().message.find("cannot reach the buffers"), std::string::npos)
      << port.error().message;
  EXPECT_NE(port.error().message.find("runtime.huge_pages"), std::string::npos);
}

TEST_F(NullPort, MemoryApartIsNotCopiedForADriverThatDoesThatItself) {
  const auto apart = std::move(*MbufPool::create({.count = 600, .room = kRoom, .apart = true}));
  Buffer* const packet = packet_of(*apart, noise(200, 3));
  ASSERT_TRUE(port_->send(frame_of(packet, 0x23)));
  EXPECT_FALSE(apart->exclusive(*packet));
  port_->flush();
  give_back(packet);
}

TEST(Attach, DeviceThatNoDriverTakesIsAnError) {
  const auto none = attach("net_no_such_driver0");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("net_no_such_driver0"), std::string::npos);
  EXPECT_FALSE(attach("net_af_packet99,iface=mtl_not_there"));
}

TEST(Open, FramesThatDoNotFitTheBuffersAreRefused) {
  // A tag of 4 bytes may come on top.
  const auto pool = make_pool(1004);
  EthdevOptions options;
  options.max_frame = 1001;
  const auto port = open_ethdev("net_null_big", *pool, options);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().message.find("1001"), std::string::npos);
  // The device went with the failure: its name is free.
  options.max_frame = 1000;
  const auto fits = open_ethdev("net_null_big", *pool, options);
  EXPECT_TRUE(fits) << fits.error().message;
}

}  // namespace
}  // namespace mtl::phy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new mtl::phy::test::EalEnvironment);
  return RUN_ALL_TESTS();
}
