#include "runtime/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "test/unit/runtime/count_new.h"
#include "test/unit/runtime/wire.h"

namespace mtl::runtime {
namespace {

using test::node_config;
using test::patient;
using test::routes;
using test::TestNode;
using test::Wire;
using test::WirePort;

constexpr PortId kPort0{0};

/// A worker on a thread over a node without ports that matter.
class Alone : public testing::Test {
 protected:
  void start() {
    thread_ = std::thread([this] { worker.run(); });
  }
  /// Runs `f` on the worker and waits for it.
  void on_worker(const std::function<void(Time)>& f) {
    std::atomic<bool> ran{false};
    worker.post([&](Time now) {
      f(now);
      ran = true;
    });
    while (!ran) std::this_thread::yield();
  }
  void TearDown() override {
    worker.stop();
    if (thread_.joinable()) thread_.join();
    worker.collect();
  }

  Clock clock;
  TestNode node{node_config(1, 1), routes({{2, 0}}, 1)};
  Worker worker{IdleConfig{.longest_wait = std::chrono::hours(1)}, node.loop, clock};
  std::thread thread_;
};

TEST_F(Alone, RunsCommandsOnItsThreadAndCompletionsOnTheAskers) {
  std::thread::id ran_on, done_on;
  std::atomic<bool> told{false};
  worker.on_done([&] { told = true; });
  worker.post(
      [&](Time now) {
        EXPECT_LE(now, clock.now());
        ran_on = std::this_thread::get_id();
      },
      [&] { done_on = std::this_thread::get_id(); });
  start();
  while (!told) std::this_thread::yield();
  worker.collect();
  EXPECT_EQ(ran_on, thread_.get_id());
  EXPECT_EQ(done_on, std::this_thread::get_id());
}

// One that does not return for long, as in a device's call, keeps no completion of others back.
TEST_F(Alone, TellsOfACommandBeforeItBeginsTheNext) {
  int told = 0, told_before = 0;
  worker.on_done([&] { ++told; });
  worker.post([](Time) {});
  worker.post([&](Time) { told_before = told; });
  worker.stop();
  worker.run();
  EXPECT_EQ(told_before, 1);
  EXPECT_EQ(told, 2);
}

// With an hour's sleep the test would hang if a post did not wake it.
TEST_F(Alone, IsWokenByAPostWheneverItSleeps) {
  start();
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t sleeps = worker.counters().sleeps.get();
    on_worker([](Time) {});
    if (i % 8 == 0) {
      // A sleep is counted when it has ended: the one after the command ends with the next post.
      while (worker.counters().sleeps.get() == sleeps) on_worker([](Time) {});
    }
  }
  EXPECT_GT(worker.counters().sleeps.get(), 0u);
}

TEST_F(Alone, RunsWhatWasPostedBeforeTheStop) {
  int ran = 0;
  worker.stop();
  for (int i = 0; i < 3; ++i) worker.post([&](Time) { ++ran; });
  worker.run();
  EXPECT_EQ(ran, 3);
}

TEST_F(Alone, AccountsForItsTime) {
  const std::uint64_t before = clock.ticks();
  start();
  for (int i = 0; i < 50; ++i) on_worker([](Time) {});
  worker.stop();
  thread_.join();
  const std::uint64_t all = clock.ticks() - before;
  const WorkerCounters& c = worker.counters();
  EXPECT_GE(c.loops.get(), 1u);
  EXPECT_GT(c.busy_ticks.get(), 0u);
  const double slept =
      static_cast<double>(c.sleep_ns.get()) * 1e-9 * static_cast<double>(clock.ticks_hz());
  EXPECT_LE(static_cast<double>(c.busy_ticks.get() + c.idle_ticks.get()) + slept,
            static_cast<double>(all) * 1.01);
}

/// Notes the order of the calls and that nothing is looked at while it rests.
class GateLog final : public Gate {
 public:
  void enter() override {
    if (!online_) ++faults;
    ++enters;
  }
  void rest() override {
    if (!std::exchange(online_, false)) ++faults;
  }
  void awake() override {
    if (std::exchange(online_, true)) ++faults;
  }
  int enters = 0, faults = 0;
  bool online() const { return online_; }

 private:
  bool online_ = false;
};

TEST(WorkerGate, IsAwakeDuringPassesAndRestsInSleepAndAtTheEnd) {
  const Clock clock;
  TestNode node(node_config(1, 1), routes({{2, 0}}, 1));
  GateLog gate;
  Worker worker(IdleConfig{}, node.loop, clock, &gate);
  std::thread thread([&] { worker.run(); });
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> ran{false};
    worker.post([&](Time) {
      if (!gate.online()) ++gate.faults;
      ran = true;
    });
    while (!ran) std::this_thread::yield();
  }
  worker.stop();
  thread.join();
  EXPECT_GT(gate.enters, 0);
  EXPECT_EQ(gate.faults, 0);
  EXPECT_FALSE(gate.online());
}

// Two nodes on two threads over a wire: every datagram arrives, and neither worker allocates once
// the link is up.
TEST(WorkerTraffic, NothingIsAllocatedWhileItFlows) {
  constexpr std::uint32_t kDatagrams = 5'000;
  const Clock clock;
  Wire wire;
  TestNode sender(patient(node_config(1, 1)), routes({{2, 0}}, 1));
  TestNode receiver(patient(node_config(2, 1)), routes({{1, 0}}, 1));
  WirePort sender_port(wire.a_to_b, wire.b_to_a, sender.pool);
  WirePort receiver_port(wire.b_to_a, wire.a_to_b, receiver.pool);
  Worker sending(IdleConfig{}, sender.loop, clock);
  Worker receiving(IdleConfig{}, receiver.loop, clock);
  sending.post([&](Time now) {
    sender.loop.attach(kPort0, sender_port, now);
    sender.shard.enable(kPort0, now);
  });
  receiving.post([&](Time now) {
    receiver.loop.attach(kPort0, receiver_port, now);
    receiver.shard.enable(kPort0, now);
  });
  std::thread a([&] { sending.run(); });
  std::thread b([&] { receiving.run(); });

  std::atomic<std::uint32_t> sent{0};
  std::atomic<int> counting{0};
  std::atomic<bool> usable{false};
  while (!usable) {
    sending.post([&](Time) { usable = sender.shard.link(kPort0)->usable(); });
    std::this_thread::yield();
  }
  for (Worker* worker : {&sending, &receiving}) {
    worker->post([&](Time) {
      test::count_allocations_here(true);
      ++counting;
    });
  }
  while (counting < 2) std::this_thread::yield();
  while (sent < kDatagrams) {
    std::atomic<bool> ran{false};
    sending.post([&](Time now) {
      while (sent < kDatagrams && sender.send(2, sent + 1, 200, now)) ++sent;
      ran = true;
    });
    while (!ran) std::this_thread::yield();
  }
  while (receiver.delivered_count < kDatagrams) std::this_thread::yield();
  sending.stop();
  receiving.stop();
  a.join();
  b.join();
  EXPECT_EQ(receiver.last_number, kDatagrams);
  EXPECT_EQ(test::allocations_counted(), 0u);
}

TEST(WorkerTraffic, TheCountOfAllocationsWorks) {
  const std::uint64_t before = test::allocations_counted();
  test::count_allocations_here(true);
  const auto memory = std::make_unique<int>(1);
  test::count_allocations_here(false);
  EXPECT_EQ(test::allocations_counted(), before + 1);
}

}  // namespace
}  // namespace mtl::runtime
