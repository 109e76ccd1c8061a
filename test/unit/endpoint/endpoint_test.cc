// What an endpoint promises its users, of datagrams.
#include "endpoint/endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/heap_pool.h"
#include "network/packet.h"
#include "pair.h"
#include "phy/local_port.h"

namespace mtl::endpoint {
namespace {

TEST_F(Pair, DatagramsArriveOnceInOrderAndUnaltered) {
  ASSERT_TRUE(up());
  std::size_t sent = 0;
  ASSERT_TRUE(run([&] {
    while (sent < 5000 &&
           a->send({NodeId{2}, Partition{0}, 3},
                   bytes(sent % 400, static_cast<std::uint8_t>(sent))) == Send::kTaken) {
      ++sent;
    }
    return got.size() == 5000;
  }));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], bytes(i % 400, static_cast<std::uint8_t>(i))) << i;
  }
  EXPECT_EQ(last.src, NodeId{1});
  EXPECT_EQ(last.entropy, 3);
}

TEST_F(Pair, NothingIsTakenWhileTheLinkIsDown) {
  EXPECT_EQ(a->send({NodeId{2}}, bytes(10, 0)), Send::kLinkDown);
  EXPECT_EQ(a->max_payload(), 0u);
  ASSERT_TRUE(up());
  EXPECT_EQ(a->send({NodeId{2}}, bytes(10, 0)), Send::kTaken);
}

TEST_F(Pair, TheLongestPayloadIsTheSmallerMtuLessHeaderAndCrc) {
  ASSERT_TRUE(up());
  EXPECT_EQ(a->max_payload(), 512u - 16);
  EXPECT_EQ(a->send({NodeId{2}}, bytes(497, 0)), Send::kTooLong);
  EXPECT_EQ(a->send({NodeId{2}}, bytes(496, 0)), Send::kTaken);
  ASSERT_TRUE(run([&] { return !got.empty(); }));
  EXPECT_EQ(got[0].size(), 496u);
}

TEST_F(Pair, N13_MoreThanTheBoundIsRefusedAndGoesOnLater) {
  ASSERT_TRUE(up());
  int taken = 0;
  while (a->send({NodeId{2}}, bytes(8, 1)) == Send::kTaken) ++taken;
  EXPECT_EQ(taken, 256);  // Settings::own_limit: nothing has left before progress()
  EXPECT_EQ(a->send({NodeId{2}}, bytes(8, 1)), Send::kQueueFull);
  ASSERT_TRUE(run([&] { return got.size() == 256; }));
  EXPECT_EQ(a->send({NodeId{2}}, bytes(8, 1)), Send::kTaken);
}

// L9 hands back what a dead link had; with no other way it is dropped here, and nobody on the way
// could tell: the sender must learn itself which packets those were.
TEST_F(Pair, WhatTheOwnLinkTookWithItIsRefusedByThisNode) {
  ASSERT_TRUE(up());
  std::vector<std::byte> firsts;
  a->on_refusal([&](const Refusal& r) {
    EXPECT_EQ(r.from, NodeId{1});
    EXPECT_FALSE(r.hop_limit_exceeded);
    ASSERT_EQ(r.packet.size(), 28u);
    firsts.push_back(r.packet[12]);                                 // behind the network header
    EXPECT_EQ(a->send({NodeId{2}}, bytes(1, 0)), Send::kLinkDown);  // a handler may send
  });
  for (std::uint8_t i = 0; i < 200; ++i) {
    ASSERT_EQ(a->send({NodeId{2}}, bytes(50, i)), Send::kTaken);
  }
  ASSERT_TRUE(a->pending() == 200);
  b->close();
  ASSERT_TRUE(run([&] { return firsts.size() == 200; }));
  for (std::uint8_t i = 0; i < 200; ++i) EXPECT_EQ(firsts[i], std::byte{i});
  EXPECT_EQ(a->counters().drops.get(Drop::kNoRoute), 200u);
  EXPECT_TRUE(got.empty());
}

TEST_F(Pair, AShortPacketThatIsDroppedHereIsToldWhole) {
  ASSERT_TRUE(up());
  std::size_t length = 0;
  a->on_refusal([&](const Refusal& r) { length = r.packet.size(); });
  ASSERT_EQ(a->send({NodeId{2}}, bytes(3, 0)), Send::kTaken);
  b->close();
  ASSERT_TRUE(run([&] { return length != 0; }));
  EXPECT_EQ(length, 12u + 3u + 4u);
}

TEST_F(Pair, ARefusalTellsWhoDroppedAndWhat) {
  ASSERT_TRUE(up());
  // Each knows the other as its only way on, so a packet for nobody goes to and fro until the hop
  // limit ends it, at node 2.
  std::vector<std::byte> packet;
  NodeId from;
  bool exceeded = false;
  a->on_refusal([&](const Refusal& r) {
    exceeded = r.hop_limit_exceeded;
    packet.assign(r.packet.begin(), r.packet.end());
    from = r.from;
  });
  EXPECT_EQ(a->send({NodeId{9}}, bytes(16, 7)), Send::kTaken);
  ASSERT_TRUE(run([&] { return !packet.empty(); }));
  EXPECT_TRUE(exceeded);
  EXPECT_EQ(from, NodeId{2});
  ASSERT_EQ(packet.size(), 28u);
  const network::Header h = network::decode(packet);
  EXPECT_EQ(h.dst, NodeId{9});
  EXPECT_EQ(h.src, NodeId{1});
}

TEST_F(Pair, CloseIsToldToThePeer) {
  ASSERT_TRUE(up());
  a->close();
  ASSERT_TRUE(run([&] { return !b->usable(); }));
  const auto& downs = b->link().counters().downs;
  EXPECT_EQ(downs[static_cast<std::size_t>(link::DownReason::kPeerClose)].get() +
                downs[static_cast<std::size_t>(link::DownReason::kNoCarrier)].get(),
            1u);
}

/// At 2 Mbit/s a datagram of 424 bytes (440 of packet, 470 of frame, 494 with what Ethernet puts
/// beside it) takes 1,976 us.
class PacedPair : public Pair {
 protected:
  PacedPair() : Pair(phy::PacerConfig{2'000'000, phy::kEthernetOverhead}) {}
};

TEST_F(PacedPair, SendsNoFasterThanItsRateAndSleepsUntilItMay) {
  ASSERT_TRUE(up());
  const Time begin = a->clock().now();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(a->send({NodeId{2}}, bytes(424, 1)), Send::kTaken);
  ASSERT_TRUE(run([&] { return got.size() == 50; }));
  // The first goes at once. What the endpoint was late by at the first it may make up for.
  EXPECT_GE(a->clock().now() - begin, 49 * 1976us - phy::Pacer::kCatchUp);
}

TEST_F(PacedPair, L8_CloseWaitsForNoRate) {
  ASSERT_TRUE(up());
  for (int i = 0; i < 50; ++i) ASSERT_EQ(a->send({NodeId{2}}, bytes(424, 1)), Send::kTaken);
  a->progress();  // the wire is taken now, and will be
  a->close();
  EXPECT_EQ(a->link().counters().frames_out[static_cast<std::size_t>(link::Kind::kClose)].get(),
            1u);
}

TEST(EndpointOpen, RefusesALinkThatThePortCannotCarry) {
  auto pool = std::make_unique<HeapPool>(100, 1100);
  auto port = phy::LocalPort::create({.name = "a", .max_frame = 1000}, *pool);
  ASSERT_TRUE(port);
  const auto opened = Endpoint::open(settings(1, 1024), std::move(pool), std::move(*port));
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("mtu 1024"), std::string::npos);
}

TEST(EndpointClaim, NamesAMissingDaemon) {
  const auto claimed = Endpoint::claim({.control_socket = "/nonexistent/mtlink.sock"});
  ASSERT_FALSE(claimed);
  EXPECT_NE(claimed.error().message.find("/nonexistent/mtlink.sock"), std::string::npos);
}

}  // namespace
}  // namespace mtl::endpoint
