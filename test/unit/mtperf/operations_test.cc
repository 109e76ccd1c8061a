// A client and a server of mtperf on two endpoints joined by a local port: every job is done, and
// what is altered, refused or missing is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../endpoint/pair.h"
#include "tools/mtperf/client.h"
#include "tools/mtperf/serve.h"

namespace mtl::mtperf {
namespace {

using namespace std::chrono_literals;
using endpoint::Pair;
using testing::HasSubstr;

constexpr std::uint64_t kOperations = 3000;

class Operations : public Pair {
 protected:
  void SetUp() override {
    ASSERT_TRUE(a->start_transport(transport_settings(), transport_limits()));
    ASSERT_TRUE(b->start_transport(transport_settings(), transport_limits()));
    options.peer = NodeId{2};
    options.operations = kOperations;
    options.patience = 20s;
    options.job.verify = true;
    options.job.depth = 16;
  }
  void TearDown() override { stop_serving(); }
  void serve() {
    server = std::thread([this] {
      auto opened = Server::open(*b, served);
      ASSERT_TRUE(opened);
      (*opened)->run([this] { return stop_server.load(); });
    });
  }
  void stop_serving() {
    stop_server = 1;
    if (server.joinable()) server.join();
  }
  mtlink::perf::OperationReport measure(Mode mode, std::vector<std::uint64_t> sizes) {
    options.job.mode = mode;
    options.sizes = std::move(sizes);
    if (!server.joinable()) serve();
    options.first_endpoint = static_cast<std::uint16_t>(options.first_endpoint + 100);
    return Client(*a, options).run([this] { return stop_client.load(); });
  }
  /// All rows are there, and complete.
  void expect_done(const mtlink::perf::OperationReport& report, std::uint64_t operations) {
    EXPECT_TRUE(report.ok()) << (report.faults_size() == 0 ? "" : report.faults(0));
    ASSERT_EQ(report.rows_size(), static_cast<int>(options.sizes.size()));
    for (const auto& row : report.rows()) {
      EXPECT_GE(row.operations(), operations) << row.size();
      EXPECT_EQ(row.altered(), 0u);
      EXPECT_GT(row.seconds(), 0);
      EXPECT_NEAR(row.bytes_per_second(),
                  row.operations_per_second() * static_cast<double>(row.size()),
                  row.bytes_per_second() * 1e-9);
    }
  }

  ClientOptions options;
  ServeOptions served;
  std::atomic<int> stop_client = 0;
  std::atomic<int> stop_server = 0;
  std::thread server;
};

TEST_F(Operations, EveryModeIsDoneAndItsContentsAreRight) {
  expect_done(measure(Mode::kWrite, {1, 8, 100, 5000}), kOperations);
  expect_done(measure(Mode::kRead, {1, 8, 100, 5000}), kOperations);
  expect_done(measure(Mode::kSend, {1, 8, 100, 5000, 40'000}), kOperations);
  expect_done(measure(Mode::kStore, {8, 64}), kOperations);
  expect_done(measure(Mode::kLoad, {8}), kOperations);
  expect_done(measure(Mode::kAtomic, {8}), kOperations);
}

TEST_F(Operations, BothWaysAreOfBothEnds) {
  options.job.both = true;
  for (const Mode mode : {Mode::kWrite, Mode::kRead, Mode::kSend}) {
    const auto report = measure(mode, {1000});
    expect_done(report, kOperations + 1);  // its own, and some of the server's
  }
}

TEST_F(Operations, ToAndFroIsTimedByHalves) {
  options.job.latency = true;
  options.job.verify = false;
  options.job.depth = 1;
  options.operations = 500;
  for (const Mode mode : {Mode::kWrite, Mode::kSend}) {
    const auto report = measure(mode, {1, 8, 3000});
    expect_done(report, 500);
    for (const auto& row : report.rows()) {
      const auto& time = row.time();
      EXPECT_EQ(time.count(), row.operations());
      EXPECT_GT(time.least_ns(), 0u);
      EXPECT_LE(time.least_ns(), time.median_ns());
      EXPECT_LE(time.median_ns(), time.p99_ns());
      EXPECT_LE(time.p999_ns(), time.most_ns());
    }
  }
}

TEST_F(Operations, ConnectionsAddUp) {
  options.connections = 4;
  expect_done(measure(Mode::kSend, {200}), 4 * kOperations);
  expect_done(measure(Mode::kWrite, {200}), 4 * kOperations);
}

TEST_F(Operations, ATimeEndsARow) {
  options.operations.reset();
  options.time = 50ms;
  const auto report = measure(Mode::kWrite, {64});
  expect_done(report, 1);
  EXPECT_GE(report.rows(0).seconds(), 0.04);
}

TEST_F(Operations, MoreMemoryThanTheServerGivesIsRefusedByName) {
  served.memory = 4096;
  const auto report = measure(Mode::kWrite, {1000});
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.faults_size(), 1);
  EXPECT_THAT(report.faults(0), HasSubstr("gives 4096 bytes at most"));
  EXPECT_THAT(report.faults(0), HasSubstr("takes 16000"));
  EXPECT_EQ(report.rows_size(), 0);
}

TEST_F(Operations, AServerThatGoesIsAFaultOfTheRow) {
  options.operations.reset();
  options.time = 60s;
  std::thread killer([this] {
    std::this_thread::sleep_for(200ms);
    stop_serving();
    b->close();
  });
  serve();
  options.job.mode = Mode::kWrite;
  options.sizes = {64};
  const auto report = Client(*a, options).run([this] { return stop_client.load(); });
  killer.join();
  EXPECT_FALSE(report.ok());
  ASSERT_GE(report.faults_size(), 1);
  EXPECT_THAT(report.faults(0), HasSubstr("the connection to node 2 ended"));
}

TEST_F(Operations, NobodyServes) {
  server = std::thread([this] {
    while (stop_server == 0) {
      if (!b->progress()) b->wait(1ms);
    }
  });
  options.job.mode = Mode::kWrite;
  options.sizes = {64};
  const auto report = Client(*a, options).run([this] { return stop_client.load(); });
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.faults_size(), 1);
  EXPECT_THAT(report.faults(0), HasSubstr("node 2 rejected the connection (reason 1)"));
}

TEST_F(Operations, OneThatIsStoppedSaysSo) {
  stop_client = 1;
  const auto report = measure(Mode::kWrite, {64});
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.faults(0), HasSubstr("stopped"));
}

/// Contents of one seed, looked at by another.
TEST_F(Operations, WhatIsAlteredIsCounted) {
  ASSERT_TRUE(up());
  transport::Transport& there = b->operations()->transport();
  transport::Transport& here = a->operations()->transport();
  ASSERT_TRUE(there.add_endpoint(kServerEndpoint, {.accepts = true}));
  ASSERT_TRUE(here.add_endpoint(transport::EndpointId{1}, {}));
  const auto connection =
      here.open(transport::EndpointId{1}, {NodeId{2}, kServerEndpoint, Partition{0}}, 0, a->now());
  ASSERT_TRUE(connection);
  transport::ConnectionEvent event;
  ASSERT_TRUE(run([&] { return there.next_event(event); }));
  const Job job{.mode = Mode::kSend, .verify = true, .depth = 8, .size = 100, .seed = 5};
  MessageSink right(*b, event.connection, job, 0, 5);
  Initiator initiator(*a, job, {*connection, {}, 0}, {64, {}}, 5);
  MessageSink* sink = &right;
  const auto step = [&] {
    initiator.step();
    transport::Completion completion;
    while (a->operations()->next_completion(completion)) initiator.completed(completion);
    transport::Received received;
    while (b->operations()->next_received(received, b->now())) sink->received(received);
    return initiator.over() && sink->count() == 64;
  };
  ASSERT_TRUE(run(step));
  EXPECT_EQ(right.altered(), 0u);
  right.close();
  transport::Received received;
  while (b->operations()->next_received(received, b->now())) right.received(received);
  ASSERT_TRUE(right.drained());
  MessageSink wrong(*b, event.connection, job, 0, 6);
  Initiator again(*a, job, {*connection, {}, 0}, {64, {}}, 5);
  ASSERT_TRUE(run([&] {
    again.step();
    transport::Completion completion;
    while (a->operations()->next_completion(completion)) again.completed(completion);
    while (b->operations()->next_received(received, b->now())) wrong.received(received);
    return again.over() && wrong.count() == 64;
  }));
  EXPECT_EQ(wrong.altered(), 64u);
  // What is in a place must be what was put there last.
  std::vector<std::byte> window(again.memory().begin(), again.memory().end());
  EXPECT_TRUE(again.matches(window));
  window[window.size() / 2] ^= std::byte{1};
  EXPECT_FALSE(again.matches(window));
  there.close(event.connection, b->now());
  wrong.close();
  while (b->operations()->next_received(received, b->now())) wrong.received(received);
}

/// A client that says it is done while a message of its is on its way, and asks for more: what is
/// still written to is not given up.
TEST_F(Operations, AClientThatDoesNotKeepItsWordCostsNoMemory) {
  ASSERT_TRUE(up());
  auto opened = Server::open(*b, served);
  ASSERT_TRUE(opened);
  transport::Transport& here = a->operations()->transport();
  ASSERT_TRUE(here.add_endpoint(transport::EndpointId{1}, {}));
  const auto connection =
      here.open(transport::EndpointId{1}, {NodeId{2}, kServerEndpoint, Partition{0}}, 0, a->now());
  ASSERT_TRUE(connection);
  Channel channel(*a, *connection, 0);
  std::vector<Control::Kind> said;
  // One pass of each end; the server's loop is asked to stop behind it.
  const auto turn = [&](std::size_t answers) {
    for (int i = 0; i < 20'000 && said.size() < answers; ++i) {
      a->progress();
      int passes = 1;
      (*opened)->run([&] { return passes-- > 0 ? 0 : 1; });
      transport::Received received;
      while (a->operations()->next_received(received, a->now())) {
        if (const auto control = channel.received(received)) said.push_back(control->kind);
      }
    }
    return said.size() >= answers;
  };
  const Job job{.mode = Mode::kSend, .depth = 4, .size = 100'000};
  const Control ask{.kind = Control::Kind::kJob, .job = job};
  const Control stop{.kind = Control::Kind::kStop, .job = job};
  ASSERT_TRUE(run([&] { return channel.tell(ask); }));
  ASSERT_TRUE(turn(1));
  EXPECT_EQ(said[0], Control::Kind::kReady);
  const std::vector<std::byte> data(job.size);
  for (int i = 0; i < 4; ++i) {
    const transport::Work send{.kind = transport::Work::Kind::kSend, .from = data};
    ASSERT_EQ(a->operations()->post(*connection, send, a->now()), transport::Posted::kTaken);
  }
  ASSERT_TRUE(channel.tell(stop));
  ASSERT_TRUE(channel.tell(ask));
  ASSERT_TRUE(turn(3));
  EXPECT_EQ(said[1], Control::Kind::kRefused);  // one job at a time
  EXPECT_EQ(said[2], Control::Kind::kResult);
  here.close(*connection, a->now());
  channel.close();
  transport::ConnectionEvent event;
  ASSERT_TRUE(run([&] {
    int passes = 1;
    (*opened)->run([&] { return passes-- > 0 ? 0 : 1; });
    return here.next_event(event) && event.what == transport::ConnectionEvent::What::kEnded;
  }));
}

TEST(Jobs, WhatIsNoJobIsRefused) {
  const Control job{.kind = Control::Kind::kJob,
                    .job = {Mode::kSend, false, true, true, 64, 4096, 7},
                    .key = transport::Key{0x123456789A},
                    .operations = 1,
                    .received = 2,
                    .altered = 3,
                    .limit = 4};
  ControlBytes bytes = encode(job);
  const auto back = decode_control(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->job.mode, Mode::kSend);
  EXPECT_TRUE(back->job.both && back->job.verify && !back->job.latency);
  EXPECT_EQ(back->job.depth, 64u);
  EXPECT_EQ(back->job.size, 4096u);
  EXPECT_EQ(back->job.seed, 7u);
  EXPECT_EQ(back->key, job.key);
  EXPECT_EQ(back->limit, 4u);
  EXPECT_FALSE(decode_control(std::span(bytes).first(bytes.size() - 1)));
  for (const std::size_t at : {0U, 4U, 5U, 6U}) {  // magic, kind, mode, flags
    ControlBytes wrong = bytes;
    wrong[at] = std::byte{0xFF};
    EXPECT_FALSE(decode_control(wrong)) << at;
  }
  ControlBytes huge = bytes;
  huge[16] = std::byte{0x40};  // the size
  EXPECT_FALSE(decode_control(huge));
  ControlBytes none = bytes;
  for (std::size_t i = 8; i < 12; ++i) none[i] = std::byte{0};  // the depth
  EXPECT_FALSE(decode_control(none));
}

TEST(Histograms, QuantilesAreExactToOnePartIn64) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), Duration{0});
  for (int i = 1; i <= 1000; ++i) histogram.add(Duration{i * 1000});
  EXPECT_EQ(histogram.count(), 1000u);
  EXPECT_EQ(histogram.least(), 1us);
  EXPECT_EQ(histogram.most(), 1ms);
  EXPECT_EQ(histogram.mean(), Duration{500'500});
  for (const double part : {0.01, 0.5, 0.99, 0.999, 1.0}) {
    const double right = part * 1'000'000;
    const auto got = static_cast<double>(histogram.quantile(part).count());
    EXPECT_GE(got, right) << part;
    EXPECT_LE(got, right * (1 + 1.0 / 64) + 1) << part;
  }
  std::uint64_t sum = 0;
  Duration before{-1};
  histogram.each([&](const Histogram::Bucket& bucket) {
    EXPECT_GT(bucket.most, before);
    before = bucket.most;
    sum += bucket.count;
  });
  EXPECT_EQ(sum, 1000u);
  Histogram small;
  small.add(Duration{7});
  small.add(Duration{-3});  // of a clock that went back
  EXPECT_EQ(small.least(), Duration{0});
  EXPECT_EQ(small.quantile(1), Duration{7});
  small.add(Duration::max());
  EXPECT_EQ(small.most(), Duration::max());
  histogram.add(small);
  EXPECT_EQ(histogram.count(), 1003u);
  EXPECT_EQ(histogram.least(), Duration{0});
}

}  // namespace
}  // namespace mtl::mtperf
