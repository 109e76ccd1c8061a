#include "phy/dpdk/eal.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace mtl::phy {
namespace {

cpu_set_t affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  pthread_getaffinity_np(pthread_self(), sizeof set, &set);
  return set;
}

unsigned first_cpu() {
  const cpu_set_t set = affinity();
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) return cpu;
  return 0;
}

// EAL can be started once in a process, so its life is one test: the last one.
TEST(Eal, RefusesWhatItCanCheckAndMayBeStartedAfterwards) {
  EalConfig config;
  config.workers = {{4095}};
  auto refused = Eal::start(config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("CPU 4095 for worker 0"), std::string::npos)
      << refused.error().message;

  config = {};
  config.main = {4095};
  refused = Eal::start(config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("control thread"), std::string::npos);

  config = {};
  config.memory_mib = 1U << 30;
  refused = Eal::start(config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("available"), std::string::npos)
      << refused.error().message;

  config.huge_pages = true;
  refused = Eal::start(config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("vm.nr_hugepages"), std::string::npos)
      << refused.error().message;

  config = {};
  config.memory_mib = 1;
  EXPECT_FALSE(Eal::start(config));

  config = {};
  config.workers.resize(128);
  refused = Eal::start(config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("at most 127"), std::string::npos);
}

TEST(Eal, NamesAnArgumentThatEalRefuses) {
  // In a process of its own: a failed start cannot be repeated either.
  EXPECT_EXIT(
      {
        EalConfig config;
        config.args = {"--no-such-argument"};
        ::testing::internal::CaptureStdout();
        const auto refused = Eal::start(config);
        const std::string printed = ::testing::internal::GetCapturedStdout();
        if (!refused) std::fprintf(stderr, "%s\n", refused.error().message.c_str());
        std::fprintf(stderr, "on stdout: '%s'\n", printed.c_str());
        std::exit(refused ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "DPDK did not start.*check runtime.eal_args.*\non stdout: ''");
}

TEST(Eal, RemovesOnlyWhatADeadProcessOfItsKindLeft) {
  namespace fs = std::filesystem;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const fs::path parent = fs::path(::testing::TempDir()) / ("stale-" + std::to_string(getpid()));
  const std::string dead = std::to_string(child);
  const fs::path target = parent / "target";
  fs::create_directories(parent / ("mtlink-" + dead) / "within");
  fs::create_directory_symlink(target, parent / ("mtlink-" + dead) / "link");
  const std::string own = std::to_string(getpid());
  const std::vector<std::string> kept = {"mtlink-" + own,   "mtlink-1", "mtlink-" + dead + "x",
                                         "mtlink--" + dead, "mtlink-",  "mtlink-0",
                                         "rte-" + dead,     "target"};
  for (const std::string& name : kept) fs::create_directories(parent / name / "within");
  remove_stale_runtime_dirs(parent);
  EXPECT_FALSE(fs::exists(parent / ("mtlink-" + dead)));
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(parent / name / "within")) << name;

  fs::create_directory_symlink(target, parent / ("mtlink-" + dead));
  remove_stale_runtime_dirs(parent);
  EXPECT_TRUE(fs::is_symlink(parent / ("mtlink-" + dead)));
  EXPECT_TRUE(fs::exists(target / "within"));
  fs::remove(parent / ("mtlink-" + dead));

  if (geteuid() == 0) {
    fs::create_directories(parent / ("mtlink-" + dead));
    ASSERT_EQ(chown((parent / ("mtlink-" + dead)).c_str(), 12345, 12345), 0);
    remove_stale_runtime_dirs(parent);
    EXPECT_TRUE(fs::exists(parent / ("mtlink-" + dead))) << "of another user";
  }
  remove_stale_runtime_dirs(parent / "not-there");
  fs::remove_all(parent);
}

TEST(Eal, StartsOnceQuietlyLeavesTheCallerUnpinnedAndCleansUp) {
  std::mutex mutex;
  std::vector<std::string> lines;
  EalConfig config;
  const unsigned cpu = first_cpu();
  config.workers = {{cpu}, {cpu}, {}};  // two on one CPU, one that floats
  config.log = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  const cpu_set_t before = affinity();

  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  auto started = Eal::start(config);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(started) << started.error().message;
  std::unique_ptr<Eal> eal = std::move(*started);
  {
    const std::lock_guard lock(mutex);
    EXPECT_FALSE(lines.empty()) << "the log is redirected, not lost";
  }
  const cpu_set_t after = affinity();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));

  ASSERT_EQ(eal->workers(), 3u);
  std::mutex ids_mutex;
  std::set<pid_t> ids;
  std::array<int, 3> cpus{};
  for (unsigned worker = 0; worker < 3; ++worker)
    eal->launch(worker, [&, worker] {
      const cpu_set_t own = affinity();
      const std::lock_guard lock(ids_mutex);
      ids.insert(gettid());
      cpus[worker] = CPU_COUNT(&own);
    });
  for (unsigned worker = 0; worker < 3; ++worker) eal->join(worker);
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids.count(gettid()), 0u);
  EXPECT_EQ(cpus[0], 1);
  EXPECT_EQ(cpus[1], 1);
  EXPECT_EQ(cpus[2], CPU_COUNT(&before));

  std::atomic<bool> go_on{false};
  eal->launch(0, [&] {
    while (!go_on) std::this_thread::yield();
  });
  EXPECT_TRUE(eal->running(0));
  go_on = true;
  eal->join(0);
  EXPECT_FALSE(eal->running(0));

  auto again = Eal::start(config);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("restart the process"), std::string::npos);

  const std::string dir = eal->runtime_dir();
  EXPECT_TRUE(std::filesystem::exists(dir)) << dir;
  eal.reset();
  EXPECT_FALSE(std::filesystem::exists(dir)) << dir;
}

}  // namespace
}  // namespace mtl::phy
