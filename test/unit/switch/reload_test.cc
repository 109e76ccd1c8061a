#include "switch/reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/heap_pool.h"
#include "test/unit/phy_dpdk/support.h"
#include "test/unit/switch/standing_still.h"

namespace mtl::switchd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr PortId kNew{7};

phy::test::EalEnvironment* environment = nullptr;

Result<Plan> planned(const std::string& ports) {
  const auto file = control::parse<mtlink::config::NodeConfig>(
      "node: 1 runtime { cpus: [0, 1] }\n" + ports, control::FileFormat::kText, "a.textproto");
  if (!file) return file.error();
  return plan_node(*file, Host{});
}

const std::string kSlot0 = "slots { port: 0 node: 5 }\n";
const std::string kSlot1 = "slots { port: 1 node: 6 worker: 1 }\n";
const std::string kSlot7 = "slots { port: 7 node: 8 name: \"new\" }\n";

/// A node of two slots and two workers, which run when they are told to, its configuration file a
/// string.
class ReloadTest : public testing::Test {
 protected:
  ReloadTest() {
    auto first = planned(file_);
    EXPECT_TRUE(first) << first.error().message;
    plan_ = std::move(*first);
    add_numbers(plan_, kMaxPorts);
    receive_ = std::move(*phy::MbufPool::create({plan_.buffers.receive, plan_.buffers.room, 2}));
    media_ = std::move(*Media::check(plan_, log_));
    const auto opened = media_->open(plan_, *receive_);
    EXPECT_TRUE(opened) << opened.error().message;
    NodeHost::Config config;
    config.node = plan_.node;
    config.node.shards = 2;
    config.table = std::move(*network::RouteTable::build(plan_.routes, plan_.ports.size()));
    config.pools = {&own_[0], &own_[1]};
    config.buffers = receive_->size();
    config.notify = [] {};
    host_ = std::make_unique<NodeHost>(std::move(config), clock_);
    Reload::Parts parts{plan_,
                        [this](const Host&) { return planned(file_); },
                        *host_,
                        *media_,
                        [this] { return time_; },
                        log_,
                        [this](network::RouteTable table, std::function<void()> done) {
                          host_->tables().publish(std::move(table), std::move(done));
                        },
                        [](std::size_t) { return 0.0; },
                        [] { return std::vector<std::size_t>{1}; },
                        [this](const std::vector<PortId>&) {
                          if (changed) changed();
                        },
                        [this](PortId port) { gone_.push_back(plan_.ports[port.value()].name); },
                        [this](PortId) {
                          if (slot_ended) slot_ended();
                        },
                        [] {},
                        receive_->size()};
    reload_ = std::make_unique<Reload>(std::move(parts));
  }
  ~ReloadTest() override {
    host_->stop();
    // ThreadSanitizer does not see how DPDK waits for its threads.
    while (ended_ < launched_) std::this_thread::yield();
    for (unsigned w = 0; w < 2; ++w) environment->eal().join(w);
    dispatch();
    host_.reset();
    media_.reset();
    reload_.reset();
  }

  /// On EAL's threads, as the daemon's.
  void start_workers() {
    for (unsigned w = 0; w < 2; ++w) {
      environment->eal().launch(w, [this, w] {
        host_->run(w);
        ++ended_;
      });
    }
    launched_ = 2;
  }
  void dispatch() {
    host_->dispatch([](const Event&) {});
  }
  void tick_if_due() {
    if (reload_->next_deadline(time_) <= time_) reload_->tick(time_);
  }
  /// Goes on as the daemon does.
  template <class Condition>
  void until(const Condition& condition) {
    Time before = clock_.now();
    while (!condition()) {
      const Time now = clock_.now();
      time_ += now - std::exchange(before, now);
      dispatch();
      host_->tables().reclaim();
      tick_if_due();
      std::this_thread::yield();
    }
  }
  /// This time passes, however fast, this thread being there.
  void pass_time(Duration time) {
    for (Duration gone{}; gone < time; gone += milliseconds(100)) {
      time_ += milliseconds(100);
      dispatch();
      host_->tables().reclaim();
      tick_if_due();
    }
  }
  /// Until the workers have done all that they were asked.
  void let_workers_answer() {
    std::atomic<int> left{2};
    for (std::size_t w = 0; w < 2; ++w) host_->host(w).worker().post([&](Time) { --left; });
    while (left > 0) std::this_thread::yield();
  }
  void ask(const std::string& file) {
    file_ = file;
    answer_.reset();
    reload_->reload({}, [this](Result<mtlink::control::Reloaded> told) {
      answer_ = told ? "done" : told.error().message;
    });
  }
  void done(const std::string& file) {
    ask(file);
    until([this] { return answer_.has_value(); });
    EXPECT_EQ(*answer_, "done");
  }
  bool has(PortId port) const { return plan_.ports[port.value()].present(); }

  std::function<void()> changed;
  std::function<void()> slot_ended;

  std::string file_ = kSlot0 + kSlot1;
  Log log_{LogStyle::kText, LogLevel::kError};
  runtime::Clock clock_;
  Plan plan_;
  HeapPool own_[2]{{256, 2048}, {256, 2048}};
  std::unique_ptr<phy::MbufPool> receive_;
  std::unique_ptr<Media> media_;
  std::unique_ptr<NodeHost> host_;
  std::unique_ptr<Reload> reload_;
  Time time_ = clock_.now();  ///< the reload's
  std::atomic<unsigned> ended_{0};
  unsigned launched_ = 0;
  std::optional<std::string> answer_;
  std::vector<std::string> gone_;
};

TEST_F(ReloadTest, AddsAndRemoves) {
  start_workers();
  done(kSlot0 + kSlot7);
  EXPECT_TRUE(has(kNew));
  EXPECT_FALSE(has(PortId(1)));
  EXPECT_EQ(host_->owner(PortId(1)), kNoShard);
  EXPECT_EQ(media_->port(PortId(1)), nullptr);
  EXPECT_THAT(gone_, ElementsAre("slot1"));
}

// Whoever finds the port in the plan posts to its owner at once.
TEST_F(ReloadTest, APortIsInThePlanWhenAWorkerIsToHaveItAndNotBefore) {
  ask(kSlot0 + kSlot1 + kSlot7);
  dispatch();
  EXPECT_FALSE(has(kNew));
  start_workers();
  while (!has(kNew)) dispatch();
  EXPECT_NE(host_->owner(kNew), kNoShard);
  until([this] { return answer_.has_value(); });
}

TEST_F(ReloadTest, AWorkerThatDoesNotAnswerLeavesEverythingAsItWas) {
  ask(kSlot0 + kSlot7);
  pass_time(seconds(4));
  EXPECT_FALSE(answer_);
  pass_time(seconds(2));
  ASSERT_TRUE(answer_);
  EXPECT_THAT(*answer_, HasSubstr("worker 1 did not answer for 5 s, so nothing was changed"));
  EXPECT_FALSE(reload_->under_way());
  // It does now; what was given up stays so.
  start_workers();
  bool passed = false;
  host_->post_all([](ShardHost&, Time) {}, [&] { passed = true; });
  until([&] { return passed; });
  EXPECT_FALSE(has(kNew));
  EXPECT_TRUE(has(PortId(1)));
  EXPECT_EQ(reload_->leaving(PortId(1)), "");
  EXPECT_EQ(media_->port(kNew), nullptr);
  done(kSlot0 + kSlot7);
  EXPECT_TRUE(has(kNew));
}

/// Worker 1, which has the port that goes, stops when the reload has begun.
class ReloadStops : public ReloadTest {
 protected:
  void begin() {
    start_workers();
    changed = [this] {
      if (!stops_) stops_.emplace(*host_, 1);
    };
    ask(kSlot0 + kSlot7);
    until([this] { return has(kNew); });
    pass_time(seconds(6));
    ASSERT_TRUE(answer_.has_value());
  }
  std::optional<test::StandingStill> stops_;
};

TEST_F(ReloadStops, AWorkerThatStopsInTheMiddleIsNamedAndTheRestComesLater) {
  begin();
  EXPECT_THAT(*answer_, HasSubstr("the reload has begun, and waits for worker 1"));
  EXPECT_TRUE(reload_->under_way());
  EXPECT_THAT(reload_->leaving(PortId(1)), HasSubstr("its link closes"));
  ask(kSlot0 + kSlot7);
  EXPECT_THAT(answer_.value_or(""), HasSubstr("a reload is under way, and waits for worker 1"));
  stops_->go_on();
  time_ += seconds(6);
  until([this] { return !reload_->under_way() && !has(PortId(1)); });
}

// It answers, and stops once more when nothing is left to do but to wait for the port's packets:
// whoever asked has been answered, so another reload need not wait for that.
TEST_F(ReloadStops, AReloadThatWasAnsweredEndsThoughAPortIsLeaving) {
  bool ended = false;
  slot_ended = [&] { ended = true; };
  begin();
  stops_->go_on();
  until([&] { return ended; });
  // All have been asked once more, and will be again, when both have answered.
  test::StandingStill other(*host_, 0);
  other.until_it_does();
  std::atomic<bool> answered{false};
  host_->host(1).worker().post([&](Time) { answered = true; });
  while (!answered) std::this_thread::yield();
  dispatch();
  test::StandingStill again(*host_, 1);
  again.until_it_does();
  other.go_on();
  until([this] { return !reload_->under_way(); });
  EXPECT_THAT(reload_->leaving(PortId(1)), HasSubstr("packets that came in on it"));
  again.go_on();
  time_ += seconds(2);
  until([this] { return !has(PortId(1)); });
}

// This thread has not come to look at what they said.
TEST_F(ReloadTest, WorkersThatHaveAnsweredAreNotGivenUp) {
  start_workers();
  ask(kSlot0 + kSlot7);
  let_workers_answer();
  for (int i = 0; i < 51; ++i) {
    time_ += milliseconds(100);
    tick_if_due();
  }
  EXPECT_FALSE(answer_) << *answer_;
  while (!has(kNew)) dispatch();
  until([this] { return answer_.has_value(); });
  EXPECT_EQ(*answer_, "done");
}

// Neither had the workers any time to answer in if all of the process was stopped.
TEST_F(ReloadTest, TimeInWhichThisThreadWasAwayIsNoneToAnswerIn) {
  ask(kSlot0 + kSlot7);
  pass_time(seconds(3));
  time_ += seconds(60);
  tick_if_due();
  pass_time(seconds(1));
  EXPECT_FALSE(answer_) << *answer_;
  pass_time(seconds(2));
  EXPECT_THAT(answer_.value_or(""), HasSubstr("worker 1 did not answer for 5 s"));
  start_workers();
  let_workers_answer();
}

TEST_F(ReloadTest, ADeviceThatCannotBeOpenedLeavesEverythingAsItWas) {
  start_workers();
  ask(kSlot0 + "ports { port: 9 pcap { receive_file: \"/nonexistent/x.pcap\" } }\n");
  until([this] { return answer_.has_value(); });
  EXPECT_THAT(*answer_, HasSubstr("/nonexistent/x.pcap"));
  EXPECT_FALSE(reload_->under_way());
  EXPECT_TRUE(has(PortId(1)));
  EXPECT_FALSE(has(PortId(9)));
}

// A dry run tells what the reload itself would say of the devices.
TEST_F(ReloadTest, ADryRunLooksAtDevices) {
  file_ += "ports { port: 9 pcap { receive_file: \"/nonexistent/x.pcap\" } }\n";
  mtlink::control::Reload call;
  call.set_dry_run(true);
  reload_->reload(call, [this](Result<mtlink::control::Reloaded> told) {
    answer_ = told ? "done" : told.error().message;
  });
  ASSERT_TRUE(answer_);
  EXPECT_THAT(*answer_, HasSubstr("/nonexistent/x.pcap"));
}

TEST_F(ReloadTest, AfterStopNoneBegins) {
  ask(kSlot0 + kSlot1 + kSlot7);
  reload_->stop();
  start_workers();
  bool passed = false;
  host_->post_all([](ShardHost&, Time) {}, [&] { passed = true; });
  until([&] { return passed; });
  EXPECT_FALSE(has(kNew));
  EXPECT_EQ(reload_->next_deadline(time_), kNever);
}

/// A directory of the test's own.
class Directory {
 public:
  Directory() { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "mtl-reload-XXXXXX").string();
};

std::string pcap(int port, const std::string& file, const std::string& more = "") {
  return "ports { port: " + std::to_string(port) + " pcap { send_file: \"" + file + "\" " + more +
         " } }\n";
}
const std::string kNonesuch9 = "ports { port: 9 ethdev { devargs: \"net_nonesuch0\" } }\n";

// Its device makes a file, the next one cannot be opened: the file goes, and is no reason to refuse
// the next reload.
TEST_F(ReloadTest, ARefusedReloadLeavesNoFileBehind) {
  start_workers();
  const Directory directory;
  const std::string file = directory.file("sent.pcap");
  for (const bool wrong : {true, true, false}) {
    ask(kSlot0 + kSlot1 + pcap(8, file) + (wrong ? kNonesuch9 : ""));
    until([this] { return answer_.has_value(); });
    EXPECT_THAT(*answer_, HasSubstr(wrong ? "net_nonesuch0" : "done"));
    EXPECT_NE(std::filesystem::exists(file), wrong);
    EXPECT_NE(has(PortId(8)), wrong);
  }
}

// Nor does it empty one that it may overwrite.
TEST_F(ReloadTest, ARefusedReloadOverwritesNothing) {
  start_workers();
  const Directory directory;
  const std::string file = directory.file("sent.pcap");
  std::ofstream(file) << "precious";
  ask(kSlot0 + kSlot1 + pcap(8, file, "overwrite: true") + kNonesuch9);
  until([this] { return answer_.has_value(); });
  EXPECT_THAT(*answer_, HasSubstr("net_nonesuch0"));
  std::string content;
  std::ifstream(file) >> content;
  EXPECT_EQ(content, "precious");
  done(kSlot0 + kSlot1 + pcap(8, file, "overwrite: true"));
  std::ifstream(file) >> content;
  EXPECT_NE(content, "precious");
}

TEST_F(ReloadTest, ADeviceTakesBackTheFileThatItMade) {
  const Directory directory;
  const std::string file = directory.file("sent.pcap");
  auto plan = planned(pcap(8, file, "overwrite: true"));
  ASSERT_TRUE(plan) << plan.error().message;
  for (const bool there : {false, true}) {
    if (there) std::ofstream(file) << "another's";
    const auto device = make_media_device(*plan, PortId(8));
    ASSERT_TRUE(device->check());
    const auto opened = device->open(*receive_);
    ASSERT_TRUE(opened) << opened.error().message;
    device->close();
    device->undo();
    EXPECT_EQ(std::filesystem::exists(file), there);
  }
}

// As the daemon does at its start.
TEST_F(ReloadTest, MediaThatCannotAllBeOpenedLeaveNoFileBehind) {
  const Directory directory;
  const std::string file = directory.file("sent.pcap");
  auto plan = planned(pcap(8, file) + kNonesuch9);
  ASSERT_TRUE(plan) << plan.error().message;
  auto media = std::move(*Media::check(*plan, log_));
  const auto opened = media->open(*plan, *receive_);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("net_nonesuch0"));
  media.reset();
  EXPECT_FALSE(std::filesystem::exists(file));
  start_workers();
}

/// Has a worker take buffers of a pool, and give back all but some, so that what is free lies with
/// it and in common.
std::vector<Buffer*> keep_some(NodeHost& host, std::size_t worker, phy::MbufPool& pool,
                               std::size_t count) {
  std::vector<Buffer*> kept;
  std::atomic<bool> done{false};
  host.host(worker).worker().post([&](Time) {
    std::array<Buffer*, 40> taken{};
    const std::size_t n = pool.take_burst(taken);
    EXPECT_EQ(n, taken.size());
    for (std::size_t i = 0; i < n; ++i) {
      if (i < count) {
        kept.push_back(taken[i]);
      } else {
        give_back(taken[i]);
      }
    }
    EXPECT_GT(pool.kept_by_me(), 0u) << "a thread with a cache";
    done = true;
  });
  while (!done) std::this_thread::yield();
  return kept;
}

void give_back_on(NodeHost& host, std::size_t worker, const std::vector<Buffer*>& buffers) {
  std::atomic<bool> done{false};
  host.host(worker).worker().post([&](Time) {
    for (Buffer* const buffer : buffers) give_back(buffer);
    done = true;
  });
  while (!done) std::this_thread::yield();
}

// The threads keep buffers for themselves: all of them are asked.
TEST_F(ReloadTest, ThePoolOfAPortGoesWithTheLastOfItsBuffers) {
  start_workers();
  done(kSlot0 + kSlot1 + kSlot7);
  ASSERT_THAT(reload_->pools(), SizeIs(1));
  phy::MbufPool* const pool = reload_->pools().front();
  std::vector<Buffer*> held = keep_some(*host_, 0, *pool, 3);
  const std::vector<Buffer*> other = keep_some(*host_, 1, *pool, 2);
  held.insert(held.end(), other.begin(), other.end());
  Buffer* const mine = pool->take();
  ASSERT_NE(mine, nullptr);
  done(kSlot0 + kSlot1);
  const auto stays = [&] {
    pass_time(seconds(5));
    let_workers_answer();
    pass_time(seconds(5));
    ASSERT_THAT(reload_->pools(), SizeIs(1));
    EXPECT_LT(pool->in_common() + pool->kept_by_me(), pool->size()) << "nobody keeps any";
  };
  stays();
  give_back(mine);
  stays();
  give_back_on(*host_, 1, {held.begin(), held.end() - 1});  // most of them are not its own
  stays();
  give_back_on(*host_, 0, {held.back()});
  time_ += seconds(2);
  until([this] { return reload_->pools().empty(); });
}

}  // namespace
}  // namespace mtl::switchd

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  mtl::phy::EalConfig config;
  config.workers = {{}, {}};
  mtl::switchd::environment = new mtl::phy::test::EalEnvironment(config);
  testing::AddGlobalTestEnvironment(mtl::switchd::environment);
  return RUN_ALL_TESTS();
}
