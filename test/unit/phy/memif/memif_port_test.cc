// The data path of memif between two ends in one process.

#include "phy/memif/memif_port.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <thread>

#include "../frames.h"
#include "memif_pair.h"

namespace mtl::phy {
namespace {

using test::MemifPair;
using test::MemifScribbler;
using test::must;
using test::OutFrame;
using test::take;

bool readable(int fd, int timeout_ms = 0) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, timeout_ms) == 1;
}

TEST(MemifPort, WithoutAPeerThereIsNothing) {
  HeapPool pool(4, 2048);
  const auto port = must(MemifPort::create({"m", 2048}, pool));
  EXPECT_FALSE(port->carrier());
  EXPECT_EQ(port->room(), 0u);
  EXPECT_TRUE(take(*port).empty());
  EXPECT_TRUE(port->arm());
  port->disarm();
  port->flush();
  const OutFrame out(100, 1);
  EXPECT_FALSE(port->send(out.frame));
  EXPECT_EQ(port->broken(), MemifBreak::kNone);
  EXPECT_EQ(port->traits().driver, "memif");
  EXPECT_GE(port->traits().wake_fd, 0);
}

TEST(MemifPort, RefusesAPoolOfSmallBuffers) {
  HeapPool pool(4, 1000);
  const auto port = MemifPort::create({"/run/x (id 3)", 1001}, pool);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().message.find("/run/x (id 3)"), std::string::npos);
}

TEST(MemifPort, FramesOfEveryLengthArriveAsSentBothWays) {
  MemifPair pair;
  EXPECT_TRUE(pair.server->carrier());
  EXPECT_TRUE(pair.client->carrier());
  for (auto [from, to] : {std::pair{pair.server.get(), pair.client.get()},
                          std::pair{pair.client.get(), pair.server.get()}}) {
    for (std::size_t length = 16; length <= 2018; length += 13) {
      const OutFrame out(length, length);
      ASSERT_GT(from->room(), 0u);
      ASSERT_TRUE(from->send(out.frame));
      from->flush();
      const auto got = take(*to);
      ASSERT_EQ(got.size(), 1u) << length;
      ASSERT_EQ(got[0], out.wire()) << length;
    }
    EXPECT_EQ(from->counters().frames_out.get(), to->counters().frames_in.get());
    EXPECT_EQ(from->counters().bytes_out.get(), to->counters().bytes_in.get());
  }
}

// 2,018 bytes of packet in buffers of 64: 32 of them.
TEST(MemifPort, FramesLongerThanABufferAreChained) {
  MemifPair pair(6, 64);
  EXPECT_EQ(pair.client->room(), 2u) << "64 descriptors, 32 for a longest frame";
  EXPECT_EQ(pair.server->room(), 2u);
  for (auto [from, to] : {std::pair{pair.server.get(), pair.client.get()},
                          std::pair{pair.client.get(), pair.server.get()}}) {
    for (int turn = 0; turn < 20; ++turn) {
      const OutFrame out(2018, static_cast<std::uint64_t>(turn));
      const OutFrame shorter(100, static_cast<std::uint64_t>(turn));
      ASSERT_GT(from->room(), 0u);
      ASSERT_TRUE(from->send(out.frame));
      ASSERT_TRUE(from->send(shorter.frame));
      from->flush();
      const auto got = take(*to);
      ASSERT_EQ(got.size(), 2u);
      EXPECT_EQ(got[0], out.wire());
      EXPECT_EQ(got[1], shorter.wire());
    }
  }
}

TEST(MemifPort, RoomIsWhatSendTakes) {
  MemifPair pair;
  for (auto [from, to] : {std::pair{pair.server.get(), pair.client.get()},
                          std::pair{pair.client.get(), pair.server.get()}}) {
    const OutFrame out(2018, 1);
    for (int turn = 0; turn < 5; ++turn) {
      const unsigned room = from->room();
      EXPECT_EQ(room, 16u);
      for (unsigned i = 0; i < room; ++i) ASSERT_TRUE(from->send(out.frame));
      from->flush();
      EXPECT_EQ(from->room(), 0u);
      EXPECT_FALSE(from->send(out.frame));
      EXPECT_EQ(take(*to).size(), room);
    }
  }
}

// 9,030 bytes in buffers of 192 are 48 of 64 descriptors: 17 short frames leave fewer than that,
// but more than half of the ring.
TEST(MemifPort, RoomIsFoundAgainWhereALongestFrameTakesMostOfTheRing) {
  MemifPair pair(6, 192, 9030);
  for (auto [from, to] : {std::pair{pair.server.get(), pair.client.get()},
                          std::pair{pair.client.get(), pair.server.get()}}) {
    const OutFrame shorter(100, 1), longest(9000, 2);
    ASSERT_EQ(from->room(), 1u);
    for (int i = 0; i < 17; ++i) ASSERT_TRUE(from->send(shorter.frame)) << i;
    from->flush();
    EXPECT_EQ(from->room(), 0u);
    EXPECT_EQ(take(*to).size(), 17u);
    ASSERT_EQ(from->room(), 1u);
    ASSERT_TRUE(from->send(longest.frame));
    from->flush();
    const auto got = take(*to);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0], longest.wire());
  }
}

TEST(MemifPort, NothingIsSeenBeforeFlush) {
  MemifPair pair;
  const OutFrame out(100, 1);
  ASSERT_GT(pair.client->room(), 0u);
  ASSERT_TRUE(pair.client->send(out.frame));
  EXPECT_TRUE(take(*pair.server).empty());
  pair.client->flush();
  EXPECT_EQ(take(*pair.server).size(), 1u);
}

TEST(MemifPort, TheIndicesMayWrap) {
  MemifPair pair(3);  // 65536 is 8192 turns of 8
  std::uint64_t number = 0;
  for (int turn = 0; turn < 10'000; ++turn) {
    for (auto [from, to] : {std::pair{pair.server.get(), pair.client.get()},
                            std::pair{pair.client.get(), pair.server.get()}}) {
      const OutFrame out(100, ++number);
      while (from->room() > 0) ASSERT_TRUE(from->send(out.frame));
      from->flush();
      const auto got = take(*to);
      ASSERT_EQ(got.size(), 8u);
      ASSERT_EQ(got[7], out.wire());
    }
  }
}

TEST(MemifPort, FramesWaitForBuffersAndNobodySleepsOverThem) {
  MemifPair pair(4, 2048, 2048, 2);
  const OutFrame out(100, 1);
  for (int i = 0; i < 5; ++i) {
    ASSERT_GT(pair.client->room(), 0u);
    ASSERT_TRUE(pair.client->send(out.frame));
  }
  pair.client->flush();
  std::vector<Buffer*> burst(8);
  ASSERT_EQ(pair.server->receive(burst), 2u);
  EXPECT_FALSE(pair.server->arm());
  give_back(burst[0]);
  give_back(burst[1]);
  EXPECT_EQ(take(*pair.server).size(), 2u);
  EXPECT_EQ(take(*pair.server).size(), 1u + 0u) << "the fifth";
}

TEST(MemifPort, AFrameLongerThanALongestOneIsDroppedAndCounted) {
  MemifPair pair;
  MemifScribbler peer(pair.layout);
  // Two descriptors in a chain: 2048 and 1 byte. Then a frame that is right.
  const auto offset = peer.to_server.load(0).offset;
  peer.to_server.store(0, {kMemifNext, 0, 2048, offset, 0});
  peer.to_server.store(1, {0, 0, 1, offset, 0});
  peer.to_server.store(2, {0, 0, 60, offset, 0});
  MemifScribbler::set(peer.to_server.head(), 3);
  const auto got = take(*pair.server);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].size(), 60u);
  EXPECT_EQ(pair.server->counters().drops.get(Drop::kTooLong), 1u);
  EXPECT_EQ(MemifScribbler::get(peer.to_server.tail()), 3u);
  EXPECT_EQ(pair.server_pool.available(), pair.server_pool.size());
}

TEST(MemifPort, AFrameTooLongToSendIsRefused) {
  MemifPair pair;
  const OutFrame out(2019, 1);
  EXPECT_GT(pair.client->room(), 0u);
  EXPECT_FALSE(pair.client->send(out.frame));
  EXPECT_EQ(pair.client->counters().drops.get(Drop::kTooLong), 1u);
}

// A DPDK sender leaves NEXT in a descriptor behind a chained frame, and would chain the next frame
// there to its neighbour.
TEST(MemifPort, AServerTakesTheFlagOfAChainOffBehindIt) {
  MemifPair pair;
  MemifScribbler peer(pair.layout);
  const auto offset = peer.to_server.load(0).offset;
  peer.to_server.store(0, {kMemifNext, 0, 40, offset, 0});
  peer.to_server.store(1, {0, 0, 40, offset, 0});
  MemifScribbler::set(peer.to_server.head(), 2);
  ASSERT_EQ(take(*pair.server).size(), 1u);
  EXPECT_EQ(peer.to_server.load(0).flags, 0);
  EXPECT_EQ(peer.to_server.load(0).length, 40u) << "the rest is the client's";
}

TEST(MemifPort, PacketCrcsAreCheckedWhileCopying) {
  MemifPair pair;
  OutFrame good(100, 1), bad(100, 2);
  bad.frame.packet->data[50] ^= std::byte{1};
  ASSERT_GT(pair.client->room(), 0u);
  ASSERT_TRUE(pair.client->send(good.frame));
  ASSERT_TRUE(pair.client->send(bad.frame));
  pair.client->flush();
  std::vector<Buffer*> burst(2);
  ASSERT_EQ(pair.server->receive(burst), 2u);
  EXPECT_EQ(burst[0]->notes.crc, CrcState::kGood);
  EXPECT_EQ(burst[1]->notes.crc, CrcState::kBad);
  for (Buffer* frame : burst) give_back(frame);
}

// --- interrupts ---

TEST(MemifPort, NoInterruptWhileThePeerIsAwake) {
  MemifPair pair;
  const OutFrame out(100, 1);
  for (MemifPort* port : {pair.server.get(), pair.client.get()}) port->disarm();
  for (auto [from, to] : {std::pair{pair.server.get(), pair.client.get()},
                          std::pair{pair.client.get(), pair.server.get()}}) {
    ASSERT_GT(from->room(), 0u);
    ASSERT_TRUE(from->send(out.frame));
    from->flush();
    EXPECT_FALSE(readable(to->traits().wake_fd));
    EXPECT_FALSE(to->arm()) << "a frame is there";
    EXPECT_EQ(take(*to).size(), 1u);
  }
}

TEST(MemifPort, ASleeperIsWokenEachTime) {
  MemifPair pair;
  const OutFrame out(100, 1);
  for (int turn = 0; turn < 100; ++turn) {
    for (auto [from, to] : {std::pair{pair.server.get(), pair.client.get()},
                            std::pair{pair.client.get(), pair.server.get()}}) {
      to->disarm();  // takes what the last round left
      ASSERT_TRUE(to->arm());
      EXPECT_FALSE(readable(to->traits().wake_fd)) << turn;
      ASSERT_GT(from->room(), 0u);
      ASSERT_TRUE(from->send(out.frame));
      from->flush();
      EXPECT_TRUE(readable(to->traits().wake_fd)) << turn;
      to->disarm();
      EXPECT_FALSE(readable(to->traits().wake_fd)) << "the wake-up is taken";
      EXPECT_EQ(take(*to).size(), 1u);
    }
  }
}

// More rings than the AIO context holds completions.
TEST(MemifPort, RingingNeverStops) {
  MemifPair pair;
  const OutFrame out(100, 1);
  MemifScribbler peer(pair.layout);
  for (int i = 0; i < 200; ++i) {
    MemifScribbler::set(peer.to_server.flags(), 0);
    std::uint64_t count = 0;
    ASSERT_GT(pair.client->room(), 0u);
    ASSERT_TRUE(pair.client->send(out.frame));
    pair.client->flush();
    ASSERT_EQ(::read(pair.layout.to_server.interrupt.get(), &count, sizeof count), 8) << i;
    EXPECT_EQ(take(*pair.server).size(), 1u);
  }
}

// The peer shares the open file: it may make it blocking and fill the counter.
TEST(MemifPort, AFullInterruptHoldsNobody) {
  MemifPair pair;
  const OutFrame out(100, 1);
  MemifScribbler peer(pair.layout);
  const int interrupt = pair.layout.to_client.interrupt.get();
  ASSERT_EQ(::fcntl(interrupt, F_SETFL, 0), 0);
  std::uint64_t count = 0;
  (void)!::read(interrupt, &count, sizeof count);
  const std::uint64_t most = ~std::uint64_t{0} - 1;
  ASSERT_EQ(::write(interrupt, &most, sizeof most), 8);
  for (int i = 0; i < 100; ++i) {
    MemifScribbler::set(peer.to_client.flags(), 0);
    ASSERT_GT(pair.server->room(), 0u);
    ASSERT_TRUE(pair.server->send(out.frame));
    pair.server->flush();
    EXPECT_EQ(take(*pair.client).size(), 1u);
  }
  pair.client->disarm();
  EXPECT_EQ(pair.server->broken(), MemifBreak::kNone);
}

// --- coming and going ---

TEST(MemifPort, TheNextPeerFindsItFresh) {
  MemifPair pair;
  const OutFrame out(100, 1);
  for (int turn = 0; turn < 5; ++turn) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_GT(pair.client->room(), 0u);
      ASSERT_TRUE(pair.client->send(out.frame));
      pair.client->flush();
    }
    EXPECT_EQ(take(*pair.server, 2).size(), 2u);
    const int bell = pair.server->traits().wake_fd;
    auto former = pair.server->install(nullptr);
    EXPECT_NE(former, nullptr);
    EXPECT_FALSE(pair.server->carrier());
    EXPECT_TRUE(take(*pair.server).empty());
    pair.join(5, 2048);
    EXPECT_TRUE(pair.server->carrier());
    EXPECT_EQ(pair.server->traits().wake_fd, bell);
    EXPECT_TRUE(take(*pair.server).empty()) << "the cable was cut";
  }
}

TEST(MemifSegment, RefusesWhatIsNoMemoryOrTooShort) {
  EventfdRinger ringer = must(EventfdRinger::open());
  const auto refused = [&](auto&& change) {
    const auto segment = must(MemifSegment::create(4, 2048));
    MemifLayout layout = must(segment->layout());
    change(layout);
    const auto got = MemifSegment::attach(std::move(layout), ringer);
    return got ? std::string("taken") : got.error().message;
  };
  EXPECT_EQ(refused([](MemifLayout&) {}), "taken");
  EXPECT_EQ(refused([](MemifLayout& l) { l.regions[0].size += 4096; }),
            "Region is longer than its memory");
  EXPECT_EQ(refused([](MemifLayout& l) { l.regions[0].memory = Fd(::eventfd(0, 0)); }),
            "Region is no memfd");
  EXPECT_EQ(refused([](MemifLayout& l) { l.regions[0].memory = Fd(::open("/proc/self/exe", 0)); }),
            "Region is no memfd");
  EXPECT_EQ(refused([](MemifLayout& l) { l.to_server.offset += 128; }), "Wrong cookie");
  EXPECT_EQ(
      refused([](MemifLayout& l) { l.to_client.interrupt = Fd(::memfd_create("x", MFD_CLOEXEC)); }),
      "Interrupt is no eventfd");
  EXPECT_EQ(
      refused([](MemifLayout& l) { l.to_server.interrupt = Fd(::memfd_create("x", MFD_CLOEXEC)); }),
      "Interrupt is no eventfd");
}

TEST(MemifSegment, TheMemoryThatAClientMakesCannotShrinkOrGrow) {
  const auto segment = must(MemifSegment::create(4, 2048));
  const MemifLayout layout = must(segment->layout());
  const int memory = layout.regions[0].memory.get();
  EXPECT_NE(::ftruncate(memory, 0), 0);
  EXPECT_NE(::ftruncate(memory, 1 << 30), 0);
}

TEST(MemifSegment, ARingThatWouldTakeTwoGigabytesIsRefused) {
  const auto segment = MemifSegment::create(14, 65536);
  ASSERT_FALSE(segment);
  EXPECT_NE(segment.error().message.find("make ring_size or buffer_size smaller"),
            std::string::npos);
}

// --- two threads ---

constexpr int kForeverMs = 60'000;

bool sleep_on(Port& port) {
  if (!port.arm()) return true;
  const bool woken = readable(port.traits().wake_fd, kForeverMs);
  port.disarm();
  return woken;
}

std::size_t length_of(std::uint64_t number) {
  return 16 + number * 797 % 1900;
}

/// Sends `count` numbered frames; where there is no room it looks again, as a worker does.
void send_all(Port& port, std::uint64_t count, const std::atomic<bool>& stop) {
  for (std::uint64_t number = 0; number < count && !stop;) {
    for (unsigned room = port.room(); room > 0 && number < count; --room, ++number) {
      const OutFrame out(length_of(number), number);
      ASSERT_TRUE(port.send(out.frame));
    }
    port.flush();
    std::this_thread::yield();
  }
}

void live(MemifPort& from, MemifPort& to) {
  constexpr std::uint64_t kFrames = 30'000;
  std::atomic<bool> stop{false};
  std::thread sender([&] { send_all(from, kFrames, stop); });
  std::uint64_t number = 0, right = 0;
  while (number < kFrames) {
    const auto frames = take(to, 16);
    for (const auto& frame : frames) {
      const OutFrame expected(length_of(number), number);
      if (frame == expected.wire()) ++right;
      ++number;
    }
    if (frames.empty() && !sleep_on(to)) break;
  }
  stop = true;
  sender.join();
  EXPECT_EQ(number, kFrames) << "a wake-up was lost";
  EXPECT_EQ(right, kFrames);
}

TEST(MemifPortLive, ToTheServerNothingIsLostOrAlteredAndEverySleepEnds) {
  MemifPair pair(5, 512);
  live(*pair.client, *pair.server);
}

TEST(MemifPortLive, ToTheClientNothingIsLostOrAlteredAndEverySleepEnds) {
  MemifPair pair(5, 512);
  live(*pair.server, *pair.client);
}

}  // namespace
}  // namespace mtl::phy
