// The transport of an endpoint over a link: operations on memory and messages between two nodes, as
// their owners post and see them. What the transport does on the wire, its own tests say.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "pair.h"
#include "transport/operations.h"

namespace mtl::endpoint {
namespace {

using transport::Completion;
using transport::ConnectionEvent;
using transport::ConnectionHandle;
using transport::EndpointId;
using transport::EndReason;
using transport::Key;
using transport::Posted;
using transport::Received;
using transport::Status;
using transport::Work;

constexpr EndpointId kServer{7};
constexpr EndpointId kClient{8};

class Joined : public Pair {
 protected:
  void SetUp() override {
    ASSERT_TRUE(up());
    ASSERT_TRUE(a->start_transport({}, {}));
    ASSERT_TRUE(b->start_transport({}, {}));
    ASSERT_TRUE(b->operations()->transport().add_endpoint(kServer, {.accepts = true}));
    ASSERT_TRUE(a->operations()->transport().add_endpoint(kClient, {}));
    const auto opened =
        a->operations()->transport().open(kClient, {NodeId{2}, kServer, Partition{0}}, 0, a->now());
    ASSERT_TRUE(opened) << opened.error().message;
    there = *opened;
    const auto key =
        b->operations()->give({std::span(memory), transport::kRightRead | transport::kRightWrite |
                                                      transport::kRightAtomic});
    ASSERT_TRUE(key);
    window = *key;
  }
  Posted post(const Work& work) { return a->operations()->post(there, work, a->now()); }
  /// Waits for the next completion of a's.
  Completion completion() {
    Completion done;
    EXPECT_TRUE(run([&] { return a->operations()->next_completion(done); }));
    return done;
  }
  Work put(std::span<const std::byte> from, std::uint64_t offset) const {
    return {.kind = Work::Kind::kPut, .key = window, .offset = offset, .from = from};
  }

  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
  ConnectionHandle there;
  Key window{};
};

TEST_F(Joined, WhatIsPutIsThereAndIsGotBack) {
  const std::vector<std::byte> data = bytes(100'000, 3);
  ASSERT_EQ(post(put(data, 4096)), Posted::kTaken);
  Completion done = completion();
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(done.length, data.size());
  EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin() + 4096));
  std::vector<std::byte> back(data.size());
  Work get{.kind = Work::Kind::kGet, .key = window, .offset = 4096, .to = back};
  ASSERT_EQ(post(get), Posted::kTaken);
  EXPECT_TRUE(completion().ok());
  EXPECT_EQ(back, data);
}

TEST_F(Joined, AtomicsAddUp) {
  const std::uint64_t one = 1;
  for (int i = 0; i < 1000; ++i) {
    Work add{.kind = Work::Kind::kAtomic,
             .flags = transport::kSilent,
             .key = window,
             .from = std::as_bytes(std::span(&one, 1)),
             .op = transport::AtomicOp::kAdd,
             .type = transport::AtomicType::kU64};
    ASSERT_EQ(post(add), Posted::kTaken);
  }
  ASSERT_EQ(post({.kind = Work::Kind::kFlush, .context = 9}), Posted::kTaken);
  const Completion done = completion();
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(done.context, 9u);
  std::uint64_t sum = 0;
  std::memcpy(&sum, memory.data(), sizeof(sum));
  EXPECT_EQ(sum, 1000u);
}

TEST_F(Joined, MessagesMeetTheirReceivesByTag) {
  std::array<std::byte, 64> for_5{};
  std::array<std::byte, 64> for_6{};
  ASSERT_EQ(b->operations()->post_receive(0, {.context = 5, .to = for_5, .tagged = true, .tag = 5},
                                          b->now()),
            transport::ReceivePosted::kTaken);
  ASSERT_EQ(b->operations()->post_receive(0, {.context = 6, .to = for_6, .tagged = true, .tag = 6},
                                          b->now()),
            transport::ReceivePosted::kTaken);
  const std::vector<std::byte> six = bytes(40, 6);
  ASSERT_EQ(post({.kind = Work::Kind::kSend, .flags = transport::kTagged, .from = six, .tag = 6}),
            Posted::kTaken);
  Received received;
  ASSERT_TRUE(run([&] { return b->operations()->next_received(received, b->now()); }));
  EXPECT_TRUE(received.ok());
  EXPECT_EQ(received.context, 6u);
  EXPECT_EQ(received.length, 40u);
  EXPECT_EQ(received.peer.node, NodeId{1});
  EXPECT_TRUE(std::equal(six.begin(), six.end(), for_6.begin()));
}

TEST_F(Joined, T38_WhatWasWithdrawnIsRefusedAndNothingIsWritten) {
  b->operations()->withdraw(window);
  const std::vector<std::byte> data = bytes(64, 1);
  ASSERT_EQ(post(put(data, 0)), Posted::kTaken);
  EXPECT_EQ(completion().status, Status::kBadKey);
  EXPECT_EQ(memory, std::vector<std::byte>(memory.size()));
}

TEST_F(Joined, T10_ACloseEndsWhatIsPostedAtThePeer) {
  const std::vector<std::byte> data = bytes(64, 1);
  ASSERT_EQ(post(put(data, 0)), Posted::kTaken);
  EXPECT_TRUE(completion().ok());
  ConnectionEvent event;
  ASSERT_TRUE(run([&] { return b->operations()->transport().next_event(event); }));
  ASSERT_EQ(event.what, ConnectionEvent::What::kUp);
  b->operations()->transport().close(event.connection, b->now());
  ASSERT_TRUE(run([&] { return post(put(data, 0)) == Posted::kEnded; }));
}

// The link dies with packets in it, and comes back: the transport sends them again, and each
// operation is done once (L9, T18).
TEST_F(Joined, ALinkThatDiesAndComesBackLosesNothing) {
  const std::uint64_t one = 1;
  int posted = 0;
  int done = 0;
  const auto add = [&] {
    Work work{.kind = Work::Kind::kAtomic,
              .key = window,
              .from = std::as_bytes(std::span(&one, 1)),
              .op = transport::AtomicOp::kAdd,
              .type = transport::AtomicType::kU64};
    if (posted < 2000 && post(work) == Posted::kTaken) ++posted;
    Completion completed;
    while (a->operations()->next_completion(completed)) {
      EXPECT_TRUE(completed.ok());
      ++done;
    }
    return done == 2000;
  };
  ASSERT_TRUE(run([&] { return add() || done > 200; }));
  wire->cut = true;
  ASSERT_TRUE(run([&] { return add() || !a->usable(); }));
  wire->cut = false;
  ASSERT_TRUE(run(add));
  std::uint64_t sum = 0;
  std::memcpy(&sum, memory.data(), sizeof(sum));
  EXPECT_EQ(sum, 2000u);
}

TEST_F(Joined, ItStartsOnce) {
  const auto again = a->start_transport({}, {});
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("started before"), std::string::npos);
}

TEST_F(Pair, WhatIsWrongWithTheSettingsIsNamed) {
  EXPECT_EQ(a->operations(), nullptr);
  transport::Settings none;
  none.connections = 0;
  const auto started = a->start_transport(none, {});
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("connections"), std::string::npos);
  EXPECT_EQ(a->operations(), nullptr);
}

// Nobody has asked for it: packets of the transport are taken off the link, or it would starve.
TEST_F(Pair, WithoutTransportItsPacketsLeaveTheLinkAllTheSame) {
  ASSERT_TRUE(up());
  ASSERT_TRUE(a->start_transport({}, {}));
  ASSERT_TRUE(a->operations()->transport().add_endpoint(kClient, {}));
  ASSERT_TRUE(
      a->operations()->transport().open(kClient, {NodeId{2}, kServer, Partition{0}}, 0, a->now()));
  ASSERT_TRUE(
      run([&] { return b->link().counters().frames_in[0].get() != 0 && a->pending() == 0; }));
  for (unsigned vc = 0; vc < kVcs; ++vc) {
    EXPECT_EQ(b->link().occupied(Vc{static_cast<std::uint8_t>(vc)}), 0u) << vc;
  }
}

}  // namespace
}  // namespace mtl::endpoint
