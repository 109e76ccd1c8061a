#include "runtime/idle.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

namespace mtl::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kZero = Duration::zero();

Time at(Duration t) {
  return Time(t);
}

TEST(IdlePolicy, PollsWhileThereIsWorkAndForTheSpinTimeAfterIt) {
  IdlePolicy policy(IdleConfig{});
  EXPECT_EQ(policy.after_pass(true, at(microseconds(100)), kNever, false), kZero);
  EXPECT_EQ(policy.after_pass(false, at(microseconds(149)), kNever, false), kZero);
  EXPECT_EQ(policy.after_pass(false, at(microseconds(150)), kNever, false), microseconds(50));
}

TEST(IdlePolicy, SleepsLongerEachTimeUpToTwoMillisecondsWithoutBells) {
  IdlePolicy policy(IdleConfig{});
  Time now = at(seconds(1));
  for (const int us : {50, 100, 200, 400, 800, 1600, 2000, 2000}) {
    EXPECT_EQ(policy.after_pass(false, now, kNever, false), microseconds(us));
    now += microseconds(us);
  }
  EXPECT_EQ(policy.after_pass(true, now, kNever, false), kZero);
  EXPECT_EQ(policy.after_pass(false, now + milliseconds(1), kNever, false), microseconds(50));
}

TEST(IdlePolicy, WaitsForTheBellWhenEveryPortHasOne) {
  IdlePolicy policy(IdleConfig{});
  EXPECT_EQ(policy.after_pass(false, at(seconds(1)), kNever, true), seconds(1));
  EXPECT_EQ(policy.after_pass(false, at(seconds(1)), at(milliseconds(1200)), true),
            milliseconds(200));
}

TEST(IdlePolicy, NeverSleepsBeyondADeadlineNorForLessThanASleepCosts) {
  IdlePolicy policy(IdleConfig{});
  const Time now = at(seconds(1));
  EXPECT_EQ(policy.after_pass(false, now, now + microseconds(30), false), microseconds(30));
  EXPECT_EQ(policy.after_pass(false, now, now + microseconds(19), true), kZero);
  EXPECT_EQ(policy.after_pass(false, now, now, true), kZero);
  EXPECT_EQ(policy.after_pass(false, now, now - microseconds(1), true), kZero);
}

TEST(IdlePolicy, NeverSleepsWhenToldToPoll) {
  IdlePolicy policy(IdleConfig{.always_poll = true});
  EXPECT_EQ(policy.after_pass(false, at(seconds(9)), kNever, true), kZero);
}

/// A port of which only the doorbell matters.
class BellPort final : public phy::Port {
 public:
  explicit BellPort(bool bell) {
    if (bell) traits_.wake_fd = eventfd(0, EFD_NONBLOCK);
  }
  ~BellPort() override {
    if (traits_.wake_fd >= 0) close(traits_.wake_fd);
  }
  unsigned receive(std::span<Buffer*>) override { return 0; }
  unsigned room() override { return 0; }
  bool send(const link::FrameOut&) override { return false; }
  void flush() override {}
  bool carrier() override { return true; }
  bool arm() override {
    armed = !waiting;
    return armed;
  }
  void disarm() override { armed = false; }

  bool waiting = false;
  std::atomic<bool> armed{false};
};

TEST(Sleeper, DoesNotSleepWhenAPortHasFrames) {
  Sleeper sleeper;
  BellPort quiet(true), full(true);
  full.waiting = true;
  const std::array<phy::Port*, 2> ports{&quiet, &full};
  EXPECT_FALSE(sleeper.prepare(ports));
  EXPECT_FALSE(sleeper.asleep());
  EXPECT_FALSE(quiet.armed);
}

// Each wait has no other end in sight (an hour): the test hangs if a bell is lost.
TEST(Sleeper, IsWokenByThePortsBellAndByItsOwn) {
  Sleeper sleeper;
  BellPort port(true), bell_less(false);
  const std::array<phy::Port*, 2> ports{&port, &bell_less};

  ASSERT_TRUE(sleeper.prepare(ports));
  EXPECT_TRUE(port.armed);
  EXPECT_FALSE(bell_less.armed);
  std::thread ringer([&] {
    const std::uint64_t one = 1;
    ASSERT_EQ(write(port.traits().wake_fd, &one, sizeof one), 8);
  });
  sleeper.wait(ports, std::chrono::hours(1));
  ringer.join();
  EXPECT_FALSE(port.armed);

  std::uint64_t count = 0;
  ASSERT_EQ(read(port.traits().wake_fd, &count, sizeof count), 8);
  ASSERT_TRUE(sleeper.prepare(ports));
  std::thread caller([&] { sleeper.ring(); });
  sleeper.wait(ports, std::chrono::hours(1));
  caller.join();
  EXPECT_FALSE(sleeper.asleep());
}

TEST(Sleeper, EndsWithTheTimeOut) {
  Sleeper sleeper;
  ASSERT_TRUE(sleeper.prepare({}));
  sleeper.wait({}, microseconds(100));
  EXPECT_FALSE(sleeper.asleep());
}

// What is left before ring() is seen by the sleeper, whatever the order: 20,000 items, each waited
// for.
TEST(Sleeper, LosesNoWakeUp) {
  constexpr int kItems = 20'000;
  Sleeper sleeper;
  std::atomic<int> left{0}, taken{0};
  std::thread sender([&] {
    for (int i = 1; i <= kItems; ++i) {
      left.store(i, std::memory_order_relaxed);
      sleeper.ring();
      while (taken.load() < i) std::this_thread::yield();
    }
  });
  while (taken.load() < kItems) {
    if (left.load() > taken.load()) {
      taken.store(left.load());
      continue;
    }
    ASSERT_TRUE(sleeper.prepare({}));
    if (left.load(std::memory_order_relaxed) > taken.load()) {
      sleeper.cancel({});
    } else {
      sleeper.wait({}, std::chrono::hours(1));
    }
  }
  sender.join();
}

}  // namespace
}  // namespace mtl::runtime
