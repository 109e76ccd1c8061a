#include "tools/mtperf/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace mtl::mtperf {
namespace {

using transport::Completion;
using transport::ConnectionEvent;
using transport::EndpointId;
using transport::EndReason;
using transport::Received;
using transport::Work;

constexpr Duration kNap = std::chrono::milliseconds(1);
constexpr std::uint64_t kWarmUp = 100;  ///< round trips that are not counted

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

std::uint64_t ns(Duration d) {
  return static_cast<std::uint64_t>(d.count());
}

}  // namespace

Client::Client(endpoint::Endpoint& endpoint, const ClientOptions& options)
    : endpoint_(endpoint), options_(options), idler_(endpoint, options.poll) {
  report_.set_node(endpoint.node().value());
  report_.set_peer(options.peer.value());
  report_.set_mode(name(options.job.mode));
  report_.set_to_and_fro(options.job.latency);
  report_.set_both(options.job.both);
  report_.set_verified(options.job.verify);
  report_.set_depth(options.job.depth);
  report_.set_connections(options.connections);
}

Client::~Client() {
  end_row();
  for (const auto& lane : lanes_) {
    endpoint_.operations()->transport().close(lane->connection, endpoint_.now());
    if (lane->channel != nullptr) lane->channel->close();
  }
  idler_.linger([this] {
    take_events();
    take_completions();
  });
  take_received();
}

bool Client::fail(std::string what) {
  report_.add_faults(std::move(what));
  return false;
}

void Client::turn() {
  idler_.turn(kNap);
  take_events();
  take_received();
  take_completions();
}

/// Turns until `done`; false: it went wrong, which is reported.
template <class Done>
bool Client::until(Done done, const std::string& what) {
  const Time patience = endpoint_.clock().now() + options_.patience;
  for (;;) {
    turn();
    if (failed()) return false;
    if (done()) return true;
    if (stops_() != 0) return fail("stopped");
    if (endpoint_.clock().now() < patience) continue;
    return fail(fmt::format("waited {:g} s in vain until {}; does `mtperf serve` run at node {}?",
                            seconds(options_.patience), what, options_.peer.value()));
  }
}

/// What has gone wrong with a lane is reported once.
bool Client::failed() {
  if (report_.faults_size() != 0) return true;
  for (const auto& lane : lanes_) {
    if (!lane->ended.empty()) return !fail(lane->ended);
    const Initiator* const whose =
        lane->reader != nullptr ? lane->reader.get() : lane->initiator.get();
    if (whose == nullptr || !whose->failed()) continue;
    const Completion& c = *whose->failed();
    if (c.ended != EndReason::kNone) continue;  // its event tells more
    return !fail(fmt::format("node {} refused an operation: {} (key {:#x}, offset {}, {} bytes)",
                             c.peer.node.value(), transport::name(c.status), c.key.value(),
                             c.offset, c.length));
  }
  return false;
}

std::string Client::end_text(const ConnectionEvent& event) const {
  if (event.reason == EndReason::kRejected) {
    return fmt::format(
        "node {} rejected the connection (reason {}); does `mtperf serve` run there, with room "
        "for one more?",
        options_.peer.value(), static_cast<unsigned>(event.rejected));
  }
  const bool silent = event.reason == EndReason::kDead || event.reason == EndReason::kOpenTimeout;
  return fmt::format("the connection to node {} ended: {}{}", options_.peer.value(),
                     transport::name(event.reason),
                     silent ? fmt::format("; does it run, and does each link of the way carry "
                                          "packets of {} bytes? --mtu makes them shorter",
                                          endpoint_.operations()->transport().settings().mtu)
                            : "");
}

Client::Lane* Client::lane_of(std::uint64_t context) {
  const auto id = static_cast<std::uint32_t>(context >> 32);
  return id < lanes_.size() ? lanes_[id].get() : nullptr;
}

void Client::take_events() {
  ConnectionEvent event;
  while (endpoint_.operations()->transport().next_event(event)) {
    for (const auto& lane : lanes_) {
      if (!(lane->connection == event.connection)) continue;
      if (event.what == ConnectionEvent::What::kUp) {
        lane->up = true;
      } else {
        lane->ended = end_text(event);
      }
    }
  }
}

void Client::take_received() {
  Received received;
  while (endpoint_.operations()->next_received(received, endpoint_.now())) {
    Lane* const lane = lane_of(received.context);
    if (lane == nullptr) continue;
    if (static_cast<std::uint32_t>(received.context) == Channel::kContext) {
      if (auto said = lane->channel->received(received)) lane->said = *said;
    } else if (lane->sink != nullptr && lane->sink->received(received)) {
      ++messages_;
    }
  }
}

void Client::take_completions() {
  Completion completion;
  while (endpoint_.operations()->next_completion(completion)) {
    Lane* const lane = lane_of(completion.context);
    if (lane == nullptr) continue;
    Initiator* const whose = lane->reader != nullptr ? lane->reader.get() : lane->initiator.get();
    if (whose != nullptr) {
      whose->completed(completion);
    } else if (lane->out_under_way != 0) {
      --lane->out_under_way;
    }
  }
}

bool Client::connect() {
  transport::Transport& transport = endpoint_.operations()->transport();
  const auto link_up = [&] { return endpoint_.usable(); };
  if (!until(link_up, "the link comes UP (see `mtctl show links`)")) return false;
  for (std::uint32_t i = 0; i < options_.connections; ++i) {
    const EndpointId from{static_cast<std::uint16_t>(options_.first_endpoint + i)};
    if (const auto added = transport.add_endpoint(from, {}); !added) {
      return fail(added.error().message);
    }
    const transport::Peer peer{options_.peer, kServerEndpoint, options_.partition};
    const auto opened = transport.open(from, peer, 0, endpoint_.now());
    if (!opened) return fail(opened.error().message);
    auto& lane = *lanes_.emplace_back(std::make_unique<Lane>());
    lane.id = i;
    lane.connection = *opened;
  }
  const auto all_up = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->up; });
  };
  if (!until(all_up, "it accepts")) return false;
  for (const auto& lane : lanes_) {
    lane->channel = std::make_unique<Channel>(endpoint_, lane->connection, lane->id);
  }
  return true;
}

/// Memory, and the receives of what the server sends.
bool Client::start_lane(Lane& lane, const Job& job) {
  const transport::Connection* connection =
      endpoint_.operations()->transport().find(lane.connection);
  if (connection == nullptr) return false;  // its end is to come
  lane.job = job;
  lane.job.seed += std::uint64_t{2} * lane.id;
  lane.window.assign(job.window(), std::byte{});
  fill_readable(lane.job, lane.window);
  const auto key = endpoint_.operations()->give(
      {.memory = lane.window,
       .rights = transport::kRightRead | transport::kRightWrite | transport::kRightAtomic,
       .only = connection->id()});
  if (!key) return fail(key.error().message);
  lane.key = *key;
  if (job.mode == Mode::kSend && (job.both || job.latency)) {
    lane.sink = std::make_unique<MessageSink>(endpoint_, lane.connection, lane.job, lane.id,
                                              lane.job.seed + kServerSeed);
  }
  lane.said.reset();
  lane.channel->tell({.kind = Control::Kind::kJob, .job = lane.job, .key = lane.key});
  return true;
}

bool Client::start_row(const Job& job) {
  for (const auto& lane : lanes_) {
    if (!start_lane(*lane, job)) return until([] { return false; }, "it answers");
  }
  const auto all_said = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->said; });
  };
  if (!until(all_said, "it takes the job")) return false;
  for (const auto& lane : lanes_) {
    const Control& said = *lane->said;
    if (said.kind == Control::Kind::kRefused && job.window() <= said.limit) {
      return fail("the server cannot take a job more at a time; try again");
    }
    if (said.kind == Control::Kind::kRefused) {
      return fail(fmt::format(
          "the server gives {} bytes at most, and --size {} with --depth {} takes {}; `mtperf "
          "serve --memory` gives more",
          said.limit, job.size, job.depth, job.window()));
    }
    if (said.kind != Control::Kind::kReady) return fail("the server's answer makes no sense");
    lane->there = said.key;
  }
  return true;
}

/// Each lane does its part until it is done.
bool Client::work_row() {
  Until limit{options_.operations, {}};
  if (!options_.operations) limit.time = endpoint_.clock().now() + options_.time;
  for (const auto& lane : lanes_) {
    const Target target{lane->connection, lane->there, lane->id};
    lane->initiator =
        std::make_unique<Initiator>(endpoint_, lane->job, target, limit, lane->job.seed);
  }
  for (;;) {
    bool over = true;
    for (const auto& lane : lanes_) {
      lane->initiator->step();
      over = over && lane->initiator->over();
    }
    turn();
    if (failed()) return false;
    if (over) return true;
    if (stops_() == 0) continue;
    for (const auto& lane : lanes_) lane->initiator->stop();
    if (stops_() > 1) return fail("stopped");
  }
}

/// One at a time: it has come back when the last byte of our memory says so, or a message came.
bool Client::to_and_fro(Lane& lane, const Job& job) {
  lane.out.assign(job.size, std::byte{});
  std::uint8_t turn_byte = 1;
  messages_ = 0;
  const Time end = endpoint_.clock().now() + options_.time;
  Time first{};
  for (std::uint64_t n = 0; stops_() == 0; ++n) {
    const Time begin = endpoint_.clock().now();
    if (n == kWarmUp) first = begin;
    const bool enough = options_.operations ? n >= kWarmUp + *options_.operations : begin >= end;
    if (n > kWarmUp && enough) {
      round_trips_took_ = begin - first;
      return until([&] { return lane.out_under_way == 0; }, "all is complete");
    }
    lane.out.back() = std::byte{turn_byte};
    Work work{.kind = Work::Kind::kSend, .context = std::uint64_t{lane.id} << 32, .from = lane.out};
    if (job.mode == Mode::kWrite) {
      work.kind = Work::Kind::kPut;
      work.key = lane.there;
    }
    const auto back = [&] {
      if (job.mode == Mode::kSend) return messages_ > n;
      return std::atomic_ref<std::byte>(lane.window[job.size - 1])
                 .load(std::memory_order_acquire) == std::byte{turn_byte};
    };
    const auto posted = [&] {
      return endpoint_.operations()->post(lane.connection, work, endpoint_.now()) ==
             transport::Posted::kTaken;
    };
    if (!posted() && !until(posted, "an operation is taken")) return false;
    ++lane.out_under_way;
    const Time patience = begin + options_.patience;
    while (!back()) {
      turn();
      if (failed()) return false;
      if (stops_() != 0) break;
      if (endpoint_.clock().now() > patience) return fail("nothing came back in time");
    }
    if (n >= kWarmUp) round_trips_.add(endpoint_.clock().now() - begin);
    turn_byte = static_cast<std::uint8_t>(turn_byte % 255 + 1);
  }
  return fail("stopped");
}

/// Tells the server that all is done; it tells what it got, and did.
bool Client::stop_row(const Job& job) {
  for (const auto& lane : lanes_) {
    if (job.verify && !job.latency && !verify(*lane, job)) return false;
    lane->said.reset();
    const std::uint64_t own = lane->initiator ? lane->initiator->operations() : 0;
    const auto told = [&] {
      return lane->channel->tell({.kind = Control::Kind::kStop, .job = job, .operations = own});
    };
    if (!told() && !until(told, "a message is taken")) return false;
  }
  const auto all_said = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
      return lane->said && lane->said->kind == Control::Kind::kResult;
    });
  };
  return until(all_said, "it tells what came");
}

/// Reads back what was put.
bool Client::verify(Lane& lane, const Job& job) {
  if (job.mode != Mode::kWrite && job.mode != Mode::kStore && job.mode != Mode::kAtomic) {
    return true;
  }
  Job whole = job;
  whole.mode = Mode::kRead;
  whole.verify = false;
  whole.size = job.window();
  whole.depth = 1;
  lane.reader = std::make_unique<Initiator>(
      endpoint_, whole, Target{lane.connection, lane.there, lane.id}, Until{1, {}}, 0);
  const auto over = [&] {
    lane.reader->step();
    return lane.reader->over();
  };
  if (!until(over, "what was put is read back")) return false;
  const bool same = lane.initiator->matches(lane.reader->memory());
  lane.reader.reset();
  if (same) return true;
  return fail(fmt::format(
      "{} bytes each: the server's memory does not hold what was put there last", job.size));
}

void Client::report_row(const Job& job) {
  auto& row = *report_.add_rows();
  Histogram times = round_trips_;
  Duration took = round_trips_took_;
  std::uint64_t operations = round_trips_.count();
  std::uint64_t altered = 0;
  for (const auto& lane : lanes_) {
    altered += lane->said->altered;
    if (lane->sink != nullptr) altered += lane->sink->altered();
    if (lane->initiator == nullptr) continue;
    operations += lane->initiator->operations() + lane->said->operations;
    altered += lane->initiator->altered();
    took = std::max(took, lane->initiator->took());
    times.add(lane->initiator->times());
  }
  row.set_size(job.size);
  row.set_operations(operations);
  row.set_seconds(seconds(took));
  row.set_altered(altered);
  if (took > Duration{0}) {
    row.set_operations_per_second(static_cast<double>(operations) / seconds(took));
    row.set_bytes_per_second(row.operations_per_second() * static_cast<double>(job.size));
  }
  if (times.count() != 0) {
    // Half of the way to and fro, as perftest and OSU tell it.
    const std::uint64_t ways = job.latency ? 2 : 1;
    auto& t = *row.mutable_time();
    t.set_count(times.count());
    t.set_least_ns(ns(times.least()) / ways);
    t.set_mean_ns(ns(times.mean()) / ways);
    t.set_median_ns(ns(times.quantile(0.5)) / ways);
    t.set_p99_ns(ns(times.quantile(0.99)) / ways);
    t.set_p999_ns(ns(times.quantile(0.999)) / ways);
    t.set_most_ns(ns(times.most()) / ways);
    if (options_.histogram) {
      times.each([&](const Histogram::Bucket& bucket) {
        auto& b = *t.add_histogram();
        b.set_most_ns(ns(bucket.most) / ways);
        b.set_count(bucket.count);
      });
    }
  }
  if (altered != 0) {
    fail(
        fmt::format("{} bytes each: {} came with other contents than was sent", job.size, altered));
  }
}

/// What was given and posted is of memory that goes.
void Client::end_row() {
  for (const auto& lane : lanes_) {
    if (lane->key != transport::Key{}) endpoint_.operations()->withdraw(lane->key);
    lane->key = {};
    if (lane->sink != nullptr) lane->sink->close();
  }
  take_received();
  for (const auto& lane : lanes_) {
    if (lane->sink != nullptr && lane->sink->drained()) lane->sink.reset();
  }
  round_trips_ = {};
  round_trips_took_ = {};
}

mtlink::perf::OperationReport Client::run(const Stops& stops) {
  stops_ = stops;
  bool well = connect();
  for (const std::uint64_t size : options_.sizes) {
    if (!well || stops_() != 0) break;
    Job job = options_.job;
    job.size = size;
    well = start_row(job) && (job.latency ? to_and_fro(*lanes_.front(), job) : work_row()) &&
           stop_row(job);
    if (!well) break;
    report_row(job);
    end_row();
    for (const auto& lane : lanes_) lane->initiator.reset();
    well = report_.faults_size() == 0;
  }
  report_.set_ok(report_.faults_size() == 0 && report_.rows_size() != 0);
  return report_;
}

}  // namespace mtl::mtperf
