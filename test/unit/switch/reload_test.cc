#include "switch/reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/heap_pool.h"
#include "test/unit/phy_dpdk/support.h"

namespace mtl::switchd {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr PortId kNew{7};

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
                        clock_,
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
                        [](PortId) {},
                        [] {},
                        receive_->size()};
    reload_ = std::make_unique<Reload>(std::move(parts));
  }
  ~ReloadTest() override {
    host_->stop();
    for (std::thread& thread : threads_) thread.join();
    dispatch();
    host_.reset();
    media_.reset();
    reload_.reset();
  }

  void start_workers() {
    for (std::size_t w = 0; w < 2; ++w) threads_.emplace_back([this, w] { host_->run(w); });
  }
  void dispatch() {
    host_->dispatch([](const Event&) {});
  }
  /// Goes on, `later` being added to the clock.
  template <class Condition>
  void until(const Condition& condition, Duration later = {}) {
    while (!condition()) {
      dispatch();
      host_->tables().reclaim();
      reload_->tick(clock_.now() + later);
      std::this_thread::yield();
    }
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

  std::string file_ = kSlot0 + kSlot1;
  Log log_{LogStyle::kText, LogLevel::kError};
  runtime::Clock clock_;
  Plan plan_;
  HeapPool own_[2]{{256, 2048}, {256, 2048}};
  std::unique_ptr<phy::MbufPool> receive_;
  std::unique_ptr<Media> media_;
  std::unique_ptr<NodeHost> host_;
  std::unique_ptr<Reload> reload_;
  std::vector<std::thread> threads_;
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
  reload_->tick(clock_.now() + seconds(4));
  EXPECT_FALSE(answer_);
  reload_->tick(clock_.now() + seconds(6));
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

TEST_F(ReloadTest, AWorkerThatStopsInTheMiddleIsNamedAndTheRestComesLater) {
  start_workers();
  std::atomic<bool> go{false};
  changed = [&] {
    host_->post(ShardId(1),
                [&](ShardHost&, Time) {
                  while (!go) std::this_thread::yield();
                },
                {});
    changed = nullptr;
  };
  ask(kSlot0 + kSlot7);
  until([this] { return has(kNew); });
  until([this] { return answer_.has_value(); }, seconds(6));
  EXPECT_THAT(*answer_, HasSubstr("the reload has begun, and waits for worker 1"));
  EXPECT_TRUE(reload_->under_way());
  EXPECT_THAT(reload_->leaving(PortId(1)), HasSubstr("its link closes"));
  go = true;
  until([this] { return !reload_->under_way(); });
  until([this] { return !has(PortId(1)); }, seconds(6));
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
  EXPECT_EQ(reload_->next_deadline(clock_.now()), kNever);
}

TEST_F(ReloadTest, ThePoolOfAPortGoesWithTheLastOfItsBuffers) {
  start_workers();
  done(kSlot0 + kSlot1 + kSlot7);
  ASSERT_THAT(reload_->pools(), SizeIs(1));
  phy::MbufPool* const pool = reload_->pools().front();
  Buffer* const held = pool->take();
  ASSERT_NE(held, nullptr);
  done(kSlot0 + kSlot1);
  for (int i = 0; i < 3; ++i) {
    dispatch();
    reload_->tick(clock_.now() + seconds(10 + 2 * i));
  }
  EXPECT_THAT(reload_->pools(), SizeIs(1));
  give_back(held);
  until([this] { return reload_->pools().empty(); }, seconds(20));
}

}  // namespace
}  // namespace mtl::switchd

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::AddGlobalTestEnvironment(new mtl::phy::test::EalEnvironment());
  return RUN_ALL_TESTS();
}
