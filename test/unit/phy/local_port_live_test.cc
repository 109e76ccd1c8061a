// Two sides that really run at the same time: threads, and a process that is killed.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <random>
#include <thread>

#include "frames.h"
#include "local_pair.h"

namespace mtl::phy {
namespace {

using test::LocalPair;
using test::OutFrame;
using test::take;

// A wake-up that is lost shows as a sleep that does not end. The limit only turns that into a
// message; nothing that works waits for it.
constexpr int kForeverMs = 60'000;

bool sleep_on(Port& port) {
  if (!port.arm()) return true;
  pollfd poll_fd{port.traits().wake_fd, POLLIN, 0};
  const bool woken = ::poll(&poll_fd, 1, kForeverMs) == 1;
  port.disarm();
  return woken;
}

std::size_t length_of(std::uint64_t number) {
  return 16 + number * 797 % 1900;
}

// Sends `count` numbered frames as fast as there is room, sleeping when there is none.
void send_all(Port& port, std::uint64_t count, std::atomic<bool>& lost_wake_up) {
  for (std::uint64_t number = 0; number < count && !lost_wake_up;) {
    unsigned room = port.room();
    for (; room > 0 && number < count; --room, ++number) {
      const OutFrame out(length_of(number), number);
      if (!port.send(out.frame)) lost_wake_up = true;
    }
    port.flush();
    if (room == 0 && number < count && port.room() == 0 && !sleep_on(port)) lost_wake_up = true;
  }
}

// Takes `count` frames, sleeping when there are none; returns how many were as they should be.
std::uint64_t receive_all(Port& port, std::uint64_t count, std::atomic<bool>& lost_wake_up) {
  std::uint64_t number = 0, right = 0;
  while (number < count && !lost_wake_up) {
    const auto frames = take(port, 16);
    for (const auto& frame : frames) {
      const OutFrame expected(length_of(number), number);
      if (frame == expected.wire()) ++right;
      ++number;
    }
    if (frames.empty() && !sleep_on(port)) lost_wake_up = true;
  }
  return right;
}

TEST(LocalPortLive, TwoThreadsUnderLoadLoseAndAlterNothingAndAlwaysWake) {
  constexpr std::uint64_t kFrames = 30'000;
  LocalPair pair;  // a ring of 31 longest frames: full and empty all the time
  std::atomic<bool> lost_wake_up{false};
  std::thread sender([&] { send_all(*pair.endpoint, kFrames, lost_wake_up); });
  EXPECT_EQ(receive_all(*pair.switch_end, kFrames, lost_wake_up), kFrames);
  sender.join();
  EXPECT_FALSE(lost_wake_up);
  EXPECT_EQ(pair.endpoint->counters().frames_out.get(), kFrames);
  EXPECT_FALSE(pair.switch_end->broken());
  EXPECT_FALSE(pair.endpoint->broken());
}

// Both sides sleep before each frame: every one of them is a race between arm() and flush().
TEST(LocalPortLive, PingPongBetweenSleepersLosesNoWakeUp) {
  constexpr std::uint64_t kRounds = 20'000;
  LocalPair pair;
  std::atomic<bool> lost_wake_up{false};
  const auto play = [&](Port& port, bool serves) {
    const OutFrame out(64, 1);
    for (std::uint64_t round = 0; round < kRounds && !lost_wake_up; ++round) {
      if (serves || round > 0) {
        if (!port.send(out.frame)) lost_wake_up = true;
        port.flush();
      }
      serves = true;
      while (take(port, 1).empty() && !lost_wake_up) {
        if (!sleep_on(port)) lost_wake_up = true;
      }
      port.room();
    }
  };
  std::thread other([&] {
    play(*pair.endpoint, false);
    const OutFrame last(64, 1);
    pair.endpoint->send(last.frame);
    pair.endpoint->flush();
  });
  play(*pair.switch_end, true);
  other.join();
  EXPECT_FALSE(lost_wake_up);
}

// The child: sends without end, and takes what comes.
[[noreturn]] void run_child(LocalPortFds fds) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  HeapPool pool(16, 2048);
  auto port = LocalPort::attach(std::move(fds), "child", pool);
  if (!port) ::_exit(1);
  for (std::uint64_t number = 0;; ++number) {
    const OutFrame out(length_of(number), number);
    while ((*port)->room() == 0) {
    }
    (*port)->send(out.frame);
    if (number % 3 == 0) (*port)->flush();
    Buffer* in[4];
    for (unsigned n = (*port)->receive(in); n > 0; --n) give_back(in[n - 1]);
  }
}

// Frames up to `count` more, each as the child made it; false: one was not.
bool take_checked(LocalPort& port, std::uint64_t& number, std::uint64_t count) {
  for (const std::uint64_t end = number + count; number < end && !port.broken();) {
    for (const auto& frame : take(port, 8)) {
      const OutFrame expected(length_of(number), number);
      if (frame != expected.wire()) return false;
      ++number;
    }
  }
  return !port.broken();
}

// It dies after a random number of frames, at whatever instruction it is; what it published before
// is whole, the switch goes on, and the next process gets the slot at once.
TEST(LocalPortLive, APeerKilledAtAnyMomentHarmsNobody) {
  HeapPool pool(32, 2048);
  auto port = test::must(LocalPort::create({"slot0", 65536, 2048}, pool));
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    LocalPortFds fds = test::must(port->claim());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) run_child(std::move(fds));
    fds = LocalPortFds{};
    std::uint64_t number = 0;
    const OutFrame out(700, 1);
    const bool whole = take_checked(*port, number, 1 + random() % 300);
    while (port->room() > 0 && random() % 4 != 0) port->send(out.frame);
    port->flush();
    const bool still_whole = whole && take_checked(*port, number, 1 + random() % 100);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(still_whole) << "round " << round;
    EXPECT_TRUE(port->carrier()) << "its word stays: only the control socket tells of a kill";
    // The rest that it published, then nothing for ever, and a ring that fills.
    while (!take(*port, 8).empty()) {
    }
    for (int i = 0; i < 100 && port->room() > 0; ++i) ASSERT_TRUE(port->send(out.frame));
    port->flush();
    EXPECT_EQ(port->room(), 0u);
    EXPECT_FALSE(port->broken()) << "round " << round;
    EXPECT_NE(port->install(nullptr), nullptr);
    EXPECT_FALSE(port->carrier());
    EXPECT_EQ(pool.available(), pool.size());
  }
}

}  // namespace
}  // namespace mtl::phy
