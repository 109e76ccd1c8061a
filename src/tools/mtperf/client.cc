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
constexpr std::uint32_t kOut = 0;  ///< lower half of the context of what goes to and fro
/// Round trips that are not counted: so many, or for so long a part of a row's time.
constexpr std::uint64_t kWarmUp = 100;
constexpr int kWarmUpPart = 10;

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

std::uint64_t Client::complete() const {
  std::uint64_t sum = 0;
  for (const auto& lane : lanes_) {
    if (lane->initiator != nullptr) sum += lane->initiator->operations();
  }
  return sum;
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
  for (const auto& lane : lanes_) {
    if (lane->channel != nullptr) lane->channel->work();
    if (lane->sink != nullptr) lane->sink->work();
  }
}

/// Turns until `done`; false: it went wrong, which is reported.
template <class Done>
bool Client::until(Done done, const std::string& what) {
  const Time patience = endpoint_.clock().now() + options_.patience;
  for (;;) {
    turn();
    if (failed()) return false;
    if (done()) return true;
    if (stops_() > stops_allowed_) return fail("stopped");
    if (endpoint_.clock().now() < patience) continue;
    return fail(fmt::format(
        "waited {:g} s in vain until {}; does `mtperf serve` of this version run at node {}?",
        seconds(options_.patience), what, options_.peer.value()));
  }
}

/// What has gone wrong with a lane is reported once.
bool Client::failed() {
  if (report_.faults_size() != 0) return true;
  for (const auto& lane : lanes_) {
    if (!lane->ended.empty()) return !fail(lane->ended);
    if (lane->refused) return !refuse(*lane->refused);
    const Initiator* const whose =
        lane->reader != nullptr ? lane->reader.get() : lane->initiator.get();
    if (whose == nullptr || !whose->failed()) continue;
    if (whose->failed()->ended != EndReason::kNone) continue;  // its event tells more
    return !refuse(*whose->failed());
  }
  return false;
}

bool Client::refuse(const Completion& c) {
  return fail(fmt::format("node {} refused an operation: {} (key {:#x}, offset {}, {} bytes)",
                          c.peer.node.value(), transport::name(c.status), c.key.value(), c.offset,
                          c.length));
}

std::string Client::end_text(const ConnectionEvent& event) const {
  if (event.reason == EndReason::kRejected) {
    return fmt::format(
        "node {} rejected the connection (reason {}); does `mtperf serve` run there, with room "
        "for one more?",
        options_.peer.value(), static_cast<unsigned>(event.rejected));
  }
  const bool silent = event.reason == EndReason::kDead || event.reason == EndReason::kOpenTimeout;
  std::string text = fmt::format("the connection to node {} ended: {}", options_.peer.value(),
                                 transport::name(event.reason));
  if (!endpoint_.slot_fault().empty()) {
    text += "; the slot was lost: " + endpoint_.slot_fault();
  } else if (silent) {
    text += fmt::format(
        "; does `mtperf serve` run there, and does each link of the way carry packets of {} bytes? "
        "--mtu makes them shorter",
        endpoint_.operations()->transport().settings().mtu);
  }
  return text;
}

Client::Lane* Client::lane_of(std::uint64_t context) {
  const auto id = static_cast<std::uint32_t>(context >> 32);
  return id - 1 < lanes_.size() ? lanes_[id - 1].get() : nullptr;
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
    if (received.kind != Received::Kind::kMessage) continue;  // an imm is asked of nobody
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
    } else if (static_cast<std::uint32_t>(completion.context) == kOut && lane->out_under_way != 0) {
      --lane->out_under_way;
      if (!completion.ok() && completion.ended == EndReason::kNone) lane->refused = completion;
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
    lane.id = i + 1;
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
  if (connection == nullptr) return until([] { return false; }, "");  // its end is to come
  lane.job = job;
  lane.job.seed += std::uint64_t{2} * lane.id;
  const bool messages = job.mode == Mode::kSend;
  if ((job.both || job.latency) && !messages) {
    lane.window.assign(job.window(), std::byte{});
    fill_readable(lane.job, lane.window);
    const auto key = endpoint_.operations()->give(
        {.memory = lane.window,
         .rights = transport::kRightRead | transport::kRightWrite | transport::kRightAtomic,
         .only = connection->id()});
    if (!key) return fail(key.error().message);
    lane.key = *key;
  }
  if ((job.both || job.latency) && messages) {
    lane.sink = std::make_unique<MessageSink>(endpoint_, lane.connection, lane.job, lane.id,
                                              lane.job.seed + kServerSeed);
  }
  lane.said.reset();
  lane.refused.reset();
  return tell(lane, {.kind = Control::Kind::kJob,
                     .job = lane.job,
                     .key = lane.key,
                     .operations = options_.operations.value_or(0)});
}

bool Client::tell(Lane& lane, const Control& control) {
  const auto told = [&] { return lane.channel->tell(control); };
  return told() || until(told, "a message is taken");
}

bool Client::start_row(const Job& job) {
  // What the server still sends of the row before goes to memory of that row.
  const auto drained = [&] {
    drop_drained();
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const auto& lane) { return lane->sink == nullptr; });
  };
  if (!drained() && !until(drained, "its last message of the row before is whole")) return false;
  for (const auto& lane : lanes_) {
    if (!start_lane(*lane, job)) return false;
    turn();  // memory takes its time, and the others are to live
  }
  const auto all_said = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->said; });
  };
  if (!until(all_said, "it takes the job")) return false;
  for (const auto& lane : lanes_) {
    const Control& said = *lane->said;
    if (said.kind == Control::Kind::kRefused) return refused(job, said);
    if (said.kind != Control::Kind::kReady) return fail("the server's answer makes no sense");
    lane->there = said.key;
  }
  return true;
}

bool Client::refused(const Job& job, const Control& said) {
  if (server_memory(job) <= said.limit) {
    return fail("the server has no memory for a job more now; try again, or with less --depth");
  }
  return fail(fmt::format(
      "the server gives {} bytes at most, and --size {} with --depth {} takes {} there; `mtperf "
      "serve --memory` gives more",
      said.limit, job.size, job.depth, server_memory(job)));
}

/// Each lane does its part until it is done.
bool Client::work_row() {
  Until limit{options_.operations, {}};
  if (!options_.operations) limit.time = options_.time;
  for (const auto& lane : lanes_) {
    const Target target{lane->connection, lane->there, lane->id};
    lane->initiator =
        std::make_unique<Initiator>(endpoint_, lane->job, target, limit, lane->job.seed);
    turn();
  }
  stops_allowed_ = 1;
  std::uint64_t before = 0;
  Time patience = endpoint_.clock().now() + options_.patience;
  for (;;) {
    bool over = true;
    for (const auto& lane : lanes_) {
      lane->initiator->step();
      over = over && lane->initiator->over();
    }
    turn();
    if (failed()) return false;
    if (over) return true;
    if (stops_() > 1) return fail("stopped");
    for (const auto& lane : lanes_) {
      if (stops_() != 0) lane->initiator->stop();
    }
    const Time now = endpoint_.clock().now();
    if (const std::uint64_t sum = complete(); sum != before) {
      before = sum;
      patience = now + options_.patience;
    } else if (now > patience) {
      return fail(fmt::format("no operation was complete for {:g} s", seconds(options_.patience)));
    }
  }
}

/// One there and back: it has come back when the last byte of our memory says so, or a message
/// came. False also when it was stopped.
bool Client::round_trip(Lane& lane, const Job& job, std::uint64_t n) {
  const auto turn_byte = std::byte{static_cast<std::uint8_t>(n % 255 + 1)};
  lane.out.back() = turn_byte;
  Work work{
      .kind = Work::Kind::kSend, .context = std::uint64_t{lane.id} << 32 | kOut, .from = lane.out};
  if (job.mode == Mode::kWrite) {
    work.kind = Work::Kind::kPut;
    work.key = lane.there;
  }
  const auto posted = [&] {
    return endpoint_.operations()->post(lane.connection, work, endpoint_.now()) ==
           transport::Posted::kTaken;
  };
  if (!posted() && !until(posted, "an operation is taken")) return false;
  ++lane.out_under_way;
  const auto back = [&] {
    if (job.mode == Mode::kSend) return messages_ > n;
    return std::atomic_ref<std::byte>(lane.window[job.size - 1]).load(std::memory_order_acquire) ==
           turn_byte;
  };
  const Time patience = endpoint_.clock().now() + options_.patience;
  while (!back()) {
    turn();
    if (failed() || stops_() > 1) return false;
    if (endpoint_.clock().now() > patience) return fail("nothing came back in time");
  }
  return true;
}

bool Client::to_and_fro(Lane& lane, const Job& job) {
  lane.out.assign(job.size, std::byte{});
  messages_ = 0;
  stops_allowed_ = 1;
  const Time begin = endpoint_.clock().now();
  std::optional<Time> first;  // of those that count
  for (std::uint64_t n = 0;; ++n) {
    const Time now = endpoint_.clock().now();
    if (!first && (n >= kWarmUp || (n != 0 && now - begin >= options_.time / kWarmUpPart))) {
      first = now;
    }
    const std::uint64_t counted = round_trips_.count();
    const bool enough = options_.operations ? counted >= *options_.operations
                                            : first && now - *first >= options_.time;
    if (stops_() != 0 || (counted != 0 && enough)) {
      round_trips_took_ = first ? now - *first : Duration{0};
      return until([&] { return lane.out_under_way == 0; }, "all is complete");
    }
    if (!round_trip(lane, job, n)) return report_.faults_size() == 0 ? fail("stopped") : false;
    if (first) round_trips_.add(endpoint_.clock().now() - now);
  }
}

/// Tells the server that all is done; it tells what it got, and did.
bool Client::stop_row(const Job& job) {
  for (const auto& lane : lanes_) {
    if (job.verify && !job.latency && !verify(*lane, job)) return false;
    lane->said.reset();
    if (!tell(*lane, {.kind = Control::Kind::kStop, .job = job, .cut_short = stops_() != 0})) {
      return false;
    }
  }
  const auto all_said = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
      return lane->said && lane->said->kind == Control::Kind::kResult;
    });
  };
  if (!until(all_said, "it tells what came")) return false;
  // What it tells may overtake the last of what it sent.
  const auto all_came = [&] {
    return std::all_of(lanes_.begin(), lanes_.end(), [&](const auto& lane) {
      return !job.both || lane->sink == nullptr || lane->sink->count() >= lane->said->operations;
    });
  };
  if (!until(all_came, "all that it sent has come")) return false;
  for (const auto& lane : lanes_) compare_counts(*lane, job);
  return report_.faults_size() == 0;
}

/// Each message once.
void Client::compare_counts(const Lane& lane, const Job& job) {
  if (job.mode != Mode::kSend || job.latency) return;
  const auto compare = [&](std::uint64_t sent, std::uint64_t came, const char* where) {
    if (sent == came) return;
    fail(fmt::format("{} bytes each: {} messages were sent, and {} came {}", job.size, sent, came,
                     where));
  };
  compare(lane.initiator->operations(), lane.said->received, "at the server");
  if (job.both) compare(lane.said->operations, lane.sink->count(), "here");
}

/// Reads back what was put.
bool Client::verify(Lane& lane, const Job& job) {
  if (job.mode != Mode::kWrite && job.mode != Mode::kStore && job.mode != Mode::kAtomic) {
    return true;
  }
  lane.reader = std::make_unique<Initiator>(
      endpoint_, back_of(job), Target{lane.connection, lane.there, lane.id}, Until{1, {}}, 0);
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
  std::uint64_t own = round_trips_.count();
  std::uint64_t theirs = 0;
  std::uint64_t altered = 0;
  Time first = Time::max();
  Time last = Time::min();
  Duration took_there{};
  for (const auto& lane : lanes_) {
    altered += lane->said->altered + (lane->sink != nullptr ? lane->sink->altered() : 0);
    if (lane->initiator == nullptr) continue;
    own += lane->initiator->operations();
    altered += lane->initiator->altered();
    times.add(lane->initiator->times());
    if (lane->initiator->operations() != 0) {
      first = std::min(first, lane->initiator->first());
      last = std::max(last, lane->initiator->last());
    }
    theirs += lane->said->operations;
    took_there = std::max(took_there, Duration{static_cast<Duration::rep>(lane->said->took_ns)});
  }
  const Duration took = job.latency ? round_trips_took_ : last > first ? last - first : Duration{};
  // Each end's operations by its own time: the server begins before us, and ends behind us.
  const auto rate = [](std::uint64_t n, Duration time) {
    return time > Duration{0} ? static_cast<double>(n) / seconds(time) : 0.0;
  };
  row.set_size(job.size);
  row.set_operations(own + theirs);
  row.set_seconds(seconds(std::max(took, took_there)));
  row.set_altered(altered);
  row.set_operations_per_second(rate(own, took) + rate(theirs, took_there));
  row.set_bytes_per_second(row.operations_per_second() * static_cast<double>(job.size));
  if (times.count() != 0) report_times(row, times, job.latency);
  if (own == 0 || (job.both && theirs == 0)) {
    fail(fmt::format("{} bytes each: no operation {}was complete; --time gives more", job.size,
                     own == 0 ? "" : "of the server "));
  }
  if (altered != 0) {
    fail(
        fmt::format("{} bytes each: {} came with other contents than was sent", job.size, altered));
  }
}

/// `halves`: half of the way to and fro, as perftest and OSU tell it.
void Client::report_times(mtlink::perf::OperationRow& row, const Histogram& times,
                          bool halves) const {
  const std::uint64_t ways = halves ? 2 : 1;
  auto& t = *row.mutable_time();
  t.set_count(times.count());
  t.set_least_ns(ns(times.least()) / ways);
  t.set_mean_ns(ns(times.mean()) / ways);
  t.set_median_ns(ns(times.quantile(0.5)) / ways);
  t.set_p99_ns(ns(times.quantile(0.99)) / ways);
  t.set_p999_ns(ns(times.quantile(0.999)) / ways);
  t.set_most_ns(ns(times.most()) / ways);
  if (!options_.histogram) return;
  times.each([&](const Histogram::Bucket& bucket) {
    const std::uint64_t most = ns(bucket.most) / ways;
    const int last = t.histogram_size() - 1;
    // Of the shortest ones halves coincide.
    auto& b = last >= 0 && t.histogram(last).most_ns() == most ? *t.mutable_histogram(last)
                                                               : *t.add_histogram();
    b.set_most_ns(most);
    b.set_count(b.count() + bucket.count);
  });
}

/// What was given and posted is of memory that goes.
void Client::end_row() {
  for (const auto& lane : lanes_) {
    if (lane->key != transport::Key{}) endpoint_.operations()->withdraw(lane->key);
    lane->key = {};
    if (lane->sink != nullptr) lane->sink->close();
  }
  take_received();
  drop_drained();
  round_trips_ = {};
  round_trips_took_ = {};
}

/// One into which a message is still being written stays.
void Client::drop_drained() {
  for (const auto& lane : lanes_) {
    if (lane->sink != nullptr && lane->sink->drained()) lane->sink.reset();
  }
}

mtlink::perf::OperationReport Client::run(const Stops& stops) {
  stops_ = stops;
  bool well = connect();
  for (const std::uint64_t size : options_.sizes) {
    if (!well || stops_() != 0) break;
    stops_allowed_ = 0;
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
  if (report_.rows_size() == 0 && report_.faults_size() == 0) fail("stopped");
  report_.set_ok(report_.faults_size() == 0 && report_.rows_size() != 0);
  return report_;
}

}  // namespace mtl::mtperf
