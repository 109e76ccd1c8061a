// A client and a server of mtperf on two endpoints joined by a local port: every job is done, and
// what is altered, refused or missing is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
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
    expect_done(report, 2 * kOperations);
    EXPECT_EQ(report.rows(0).operations(), 2 * kOperations) << name(mode);
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

// The server begins before the client and ends behind it: what it does then is no part of the
// client's time.
TEST_F(Operations, RatesOfBothWaysAreOfEachEndsOwnTime) {
  options.job.both = true;
  options.job.verify = false;
  options.operations = 1;
  const auto report = measure(Mode::kWrite, {1000});
  expect_done(report, 2);
  EXPECT_EQ(report.rows(0).operations(), 2u);
}

TEST_F(Operations, OneStopEndsTheRowAndItIsTold) {
  for (const bool latency : {false, true}) {
    stop_client = 0;
    options.operations.reset();
    options.time = 60s;
    options.job.latency = latency;
    options.job.verify = !latency;
    options.job.depth = latency ? 1 : 16;
    std::thread stopper([this] {
      std::this_thread::sleep_for(100ms);
      stop_client = 1;
    });
    const auto report = measure(Mode::kWrite, {64, 128});
    stopper.join();
    EXPECT_TRUE(report.ok()) << (report.faults_size() == 0 ? "" : report.faults(0));
    ASSERT_EQ(report.rows_size(), 1) << "the second is not begun";
    EXPECT_GT(report.rows(0).operations(), 0u);
  }
}

// As many receives as messages may be under way are enough, and that many are there for all.
TEST_F(Operations, ManyConnectionsWithAllThatTheyMayHaveUnderWay) {
  options.connections = 8;
  options.job.depth = kMaxDepth;
  options.operations = 5000;
  expect_done(measure(Mode::kSend, {8}), 8 * 5000);
}

// A place is refilled for the next store, which is not taken when the row is over.
TEST_F(Operations, AStoreThatIsNotTakenWasNeverPut) {
  options.operations.reset();
  options.job.depth = 1;
  for (int i = 0; i < 10; ++i) {
    options.time = std::chrono::milliseconds(1 + i);
    expect_done(measure(Mode::kStore, {8}), 1);
  }
}

TEST_F(Operations, MemoryIsCountedInAll) {
  options.job.both = true;
  served.memory = 3 * 16 * 100;  // a window, what the server puts, and what it reads back
  expect_done(measure(Mode::kWrite, {100}), kOperations);
  const auto report = measure(Mode::kWrite, {101});
  ASSERT_EQ(report.faults_size(), 1);
  EXPECT_THAT(report.faults(0), HasSubstr("takes 4848 there"));
}

TEST_F(Operations, OneThatIsStoppedSaysSo) {
  stop_client = 1;
  const auto report = measure(Mode::kWrite, {64});
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.faults(0), HasSubstr("stopped"));
}

/// An initiator against memory of the peer's that a test fills.
class AgainstMemory : public Operations {
 protected:
  void SetUp() override {
    Operations::SetUp();
    ASSERT_TRUE(up());
    ASSERT_TRUE(b->operations()->transport().add_endpoint(kServerEndpoint, {.accepts = true}));
    transport::Transport& here = a->operations()->transport();
    ASSERT_TRUE(here.add_endpoint(transport::EndpointId{1}, {}));
    const auto opened = here.open(transport::EndpointId{1},
                                  {NodeId{2}, kServerEndpoint, Partition{0}}, 0, a->now());
    ASSERT_TRUE(opened);
    const auto key = b->operations()->give(
        {.memory = memory,
         .rights = transport::kRightRead | transport::kRightWrite | transport::kRightAtomic});
    ASSERT_TRUE(key);
    target = {*opened, *key, 1};
  }
  bool run_to_end(Initiator& initiator) {
    return run([&] {
      initiator.step();
      transport::Completion completion;
      while (a->operations()->next_completion(completion)) initiator.completed(completion);
      return initiator.over();
    });
  }
  std::vector<std::byte> memory{1024};
  Target target;
};

TEST_F(AgainstMemory, AGetThatBringsNothingIsAltered) {
  const Job job{.mode = Mode::kRead, .verify = true, .depth = 1, .size = 64, .seed = 3};
  fill_readable(job, memory);
  Initiator initiator(*a, job, target, {3, {}}, 3);
  transport::Completion completion;
  ASSERT_TRUE(run([&] {
    initiator.step();
    while (initiator.operations() == 0 && a->operations()->next_completion(completion)) {
      initiator.completed(completion);
    }
    return initiator.operations() == 1;
  }));
  EXPECT_EQ(initiator.altered(), 0u);
  initiator.step();                 // posts the second,
  initiator.completed(completion);  // of which nothing has come
  EXPECT_EQ(initiator.operations(), 2u);
  EXPECT_EQ(initiator.altered(), 1u);
}

TEST_F(AgainstMemory, FetchAddsTellWhatWasThereBefore) {
  const Job job{.mode = Mode::kAtomic, .verify = true, .depth = 4, .size = 8};
  Initiator right(*a, job, target, {100, {}}, 0);
  ASSERT_TRUE(run_to_end(right));
  EXPECT_EQ(right.altered(), 0u);
  Initiator wrong(*a, job, target, {100, {}}, 0);  // it does not begin at 0 any more
  ASSERT_TRUE(run_to_end(wrong));
  EXPECT_EQ(wrong.altered(), 100u);
}

/// A server that does not keep its word.
class BadServer : public Operations {
 protected:
  /// `job`: it got one, the so-manieth, and has not answered; `stop`: likewise.
  using Trick = std::function<void(transport::ConnectionHandle, int job, const Control&)>;
  void serve(Trick on_job, Trick on_stop) {
    ASSERT_TRUE(b->operations()->transport().add_endpoint(kServerEndpoint, {.accepts = true}));
    server = std::thread([this, on_job = std::move(on_job), on_stop = std::move(on_stop)] {
      auto& operations = *b->operations();
      std::unique_ptr<Channel> channel;
      transport::ConnectionHandle connection;
      int jobs = 0;
      while (stop_server == 0) {
        if (!b->progress()) b->wait(1ms);
        transport::ConnectionEvent event;
        while (operations.transport().next_event(event)) {
          if (event.what != transport::ConnectionEvent::What::kUp) continue;
          connection = event.connection;
          channel = std::make_unique<Channel>(*b, connection, 1);
        }
        transport::Received received;
        while (operations.next_received(received, b->now())) {
          if (static_cast<std::uint32_t>(received.context) != Channel::kContext) continue;
          const auto said = channel->received(received);
          if (!said) continue;
          const bool job = said->kind == Control::Kind::kJob;
          jobs += job ? 1 : 0;
          (job ? on_job : on_stop)(connection, jobs, *said);
          channel->tell({.kind = job ? Control::Kind::kReady : Control::Kind::kResult,
                         .job = said->job,
                         .received = options.operations.value_or(0)});
        }
        transport::Completion done;
        while (operations.next_completion(done)) {
        }
      }
    });
  }
  void post(transport::ConnectionHandle connection, const transport::Work& work) {
    EXPECT_EQ(b->operations()->post(connection, work, b->now()), transport::Posted::kTaken);
  }
  mtlink::perf::OperationReport run_rows(std::uint64_t size) {
    options.job = {.mode = Mode::kSend, .both = true, .depth = 4};
    options.operations = 1;
    options.patience = 2s;
    options.sizes = {size, size, size};
    return Client(*a, options).run([] { return 0; });
  }
  std::vector<std::byte> data = std::vector<std::byte>(500'000, std::byte{0x41});
  std::vector<std::byte> sink = std::vector<std::byte>(500'000);
};

// It would count as a message, and its receive as free: then one stays posted into memory that is
// gone.
TEST_F(BadServer, AnImmIsNoMessage) {
  serve(
      [this](transport::ConnectionHandle connection, int job, const Control& said) {
        if (job != 1) return;
        post(connection, {.kind = transport::Work::Kind::kPut,
                          .flags = transport::kWithImm,
                          .key = said.key,
                          .imm = 1});
      },
      [](auto...) {});
  const auto report = run_rows(100);
  ASSERT_GE(report.rows_size(), 1);
  EXPECT_EQ(report.rows(0).altered(), 0u);
  EXPECT_THAT(report.faults(0), HasSubstr("no operation of the server was complete"));
}

// It meets a receive of the row that is over, and is whole only in the next one.
TEST_F(BadServer, AMessageThatIsOnItsWayKeepsItsMemory) {
  serve(
      [&](transport::ConnectionHandle connection, int, const Control&) {
        EXPECT_EQ(b->operations()->post_receive(0, {.to = sink, .from = connection}, b->now()),
                  transport::ReceivePosted::kTaken);
      },
      [this](transport::ConnectionHandle connection, int job, const Control&) {
        if (job == 1) post(connection, {.kind = transport::Work::Kind::kSend, .from = data});
      });
  const auto report = run_rows(500'000);
  EXPECT_FALSE(report.ok());
  EXPECT_GE(report.rows_size(), 1) << report.faults(0);
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
  for (const std::size_t at : {0U, 4U, 5U, 6U, 7U}) {  // magic, kind, mode, flags, cut short
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

TEST(Jobs, WhatDoesNotGoTogetherIsNamed) {
  EXPECT_THAT(fault({.mode = Mode::kRead, .latency = true, .size = 8}), HasSubstr("--latency"));
  EXPECT_THAT(fault({.mode = Mode::kSend, .latency = true, .depth = 2, .size = 8}),
              HasSubstr("--depth is 1"));
  EXPECT_THAT(fault({.mode = Mode::kSend, .latency = true, .both = true, .size = 8}),
              HasSubstr("--bidirectional"));
  for (const Mode mode : {Mode::kStore, Mode::kLoad, Mode::kAtomic}) {
    EXPECT_THAT(fault({.mode = mode, .both = true, .size = 8}), HasSubstr("--bidirectional"));
  }
  EXPECT_EQ(fault({.mode = Mode::kSend, .both = true, .verify = true, .depth = 9, .size = 8}),
            nullptr);
}

TEST(Jobs, MemoryAtTheServer) {
  EXPECT_EQ(server_memory({.mode = Mode::kWrite, .depth = 4, .size = 10}), 40u);
  EXPECT_EQ(server_memory({.mode = Mode::kWrite, .latency = true, .size = 10}), 20u);
  EXPECT_EQ(server_memory({.mode = Mode::kRead, .both = true, .depth = 4, .size = 10}), 80u);
  EXPECT_EQ(server_memory({.mode = Mode::kSend, .depth = 4096, .size = 10}), 2560u);
  EXPECT_EQ(server_memory({.mode = Mode::kSend, .both = true, .depth = 4096, .size = 10}), 43520u);
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
