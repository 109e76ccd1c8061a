#include "runtime/mailbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace mtl::runtime {
namespace {

TEST(Mailbox, RunsInOrderAndCompletesInOrder) {
  Mailbox mailbox;
  std::vector<int> seen;
  EXPECT_FALSE(mailbox.pending());
  EXPECT_FALSE(mailbox.run_all(Time()));
  for (int i = 0; i < 3; ++i) {
    mailbox.post([&seen, i](Time now) { seen.push_back(i + static_cast<int>(nanos(now))); },
                 [&seen, i] { seen.push_back(100 + i); });
  }
  EXPECT_TRUE(mailbox.pending());
  EXPECT_TRUE(mailbox.run_all(Time(Duration(10))));
  EXPECT_FALSE(mailbox.pending());
  EXPECT_EQ(seen, (std::vector<int>{10, 11, 12}));
  mailbox.collect();
  EXPECT_EQ(seen, (std::vector<int>{10, 11, 12, 100, 101, 102}));
  mailbox.collect();
  EXPECT_EQ(seen.size(), 6u);
}

TEST(Mailbox, ACommandMayPostAnother) {
  Mailbox mailbox;
  int runs = 0;
  mailbox.post([&](Time) { mailbox.post([&](Time) { ++runs; }, {}); }, {});
  mailbox.run_all(Time());
  EXPECT_EQ(runs, 0);
  mailbox.run_all(Time());
  EXPECT_EQ(runs, 1);
}

// What a closure holds is freed by the side that asked, not by the worker.
TEST(Mailbox, FreesWhatAClosureHoldsWhenItIsCollected) {
  Mailbox mailbox;
  const auto held = std::make_shared<int>(1);
  bool last = false;
  mailbox.post([held](Time) {},
               [&, weak = std::weak_ptr<int>(held)] {
                 last = weak.use_count() == 1;  // the test's alone
               });
  mailbox.run_all(Time());
  EXPECT_EQ(held.use_count(), 2);
  mailbox.collect();
  EXPECT_TRUE(last);
}

TEST(Mailbox, DropsWhatWasNeverRun) {
  const auto held = std::make_shared<int>(1);
  {
    Mailbox mailbox;
    mailbox.post([held](Time) {}, {});
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Mailbox, TakesFromManyThreads) {
  constexpr int kPosters = 3, kEach = 3'000;
  Mailbox mailbox;
  std::vector<int> next(kPosters, 0);  // touched by the worker alone
  int wrong = 0, ran = 0, done = 0;
  std::vector<std::thread> posters;
  for (int p = 0; p < kPosters; ++p) {
    posters.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        mailbox.post(
            [&, p, i](Time) {
              if (next[static_cast<std::size_t>(p)]++ != i) ++wrong;
              ++ran;
            },
            [&] { ++done; });
      }
    });
  }
  while (ran < kPosters * kEach) {
    if (!mailbox.run_all(Time())) std::this_thread::yield();
  }
  for (std::thread& poster : posters) poster.join();
  mailbox.collect();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(done, kPosters * kEach);
}

}  // namespace
}  // namespace mtl::runtime
