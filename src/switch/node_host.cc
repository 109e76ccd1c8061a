#include "switch/node_host.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

namespace mtl::switchd {
namespace {

constexpr std::chrono::microseconds kLookAgain{20};

}  // namespace

NodeHost::NodeHost(Config config, const runtime::Clock& clock)
    : clock_(clock),
      hold_(config.hold),
      node_(std::move(config.node)),
      tables_(static_cast<unsigned>(node_.config().shards), std::move(config.table)),
      room_(config.buffers) {
  for (std::size_t i = 0; i < node_.config().shards; ++i) {
    ShardHost::Config host{ShardId(static_cast<std::uint8_t>(i)), config.idle, config.notify};
    hosts_.push_back(
        std::make_unique<ShardHost>(std::move(host), node_, *config.pools[i], clock, tables_));
  }
  for (std::size_t a = 0; a < hosts_.size(); ++a) {
    for (std::size_t b = a + 1; b < hosts_.size(); ++b) {
      ShardHost::join(*hosts_[a], *hosts_[b], config.buffers);
    }
  }
}

void NodeHost::stop() {
  for (const auto& host : hosts_) host->worker().stop();
}

void NodeHost::post_to(ShardId shard, Command command, Done done) {
  ShardHost& host = *hosts_[shard.value()];
  host.worker().post([&host, command = std::move(command)](Time now) { command(host, now); },
                     std::move(done));
}

void NodeHost::post(PortId port, Command command, Done done) {
  settled([this, port, command = std::move(command), done = std::move(done)] {
    post_to(node_.owner(port), command, done);
  });
}

void NodeHost::post(ShardId shard, Command command, Done done) {
  settled([this, shard, command = std::move(command), done = std::move(done)] {
    post_to(shard, command, done);
  });
}

void NodeHost::post_all(Command command, Done done) {
  settled(
      [this, command = std::move(command), done = std::move(done)] { post_to_all(command, done); });
}

void NodeHost::post_to_all(Command command, Done done) {
  // Completions all come on this thread: a plain count will do.
  const auto left = std::make_shared<std::size_t>(hosts_.size());
  for (const auto& host : hosts_) {
    host->worker().post([&host = *host, command](Time now) { command(host, now); },
                        [left, done] {
                          if (--*left == 0 && done) done();
                        });
  }
}

void NodeHost::disable_all() {
  const Command disable = [](ShardHost& host, Time now) { host.disable_all(now); };
  post_to_all(disable, {});
  if (moving_) post_all(disable);
}

// --- moves ---

struct NodeHost::Move {
  std::vector<PortId> ports;
  ShardId from;
  ShardId to;
  Moved done;
  std::vector<ShardHost::MovingPort> taken;  ///< made here: workers allocate nothing
  bool let_go = false;                       ///< by `from`
};

/// Runs it now, or when the move that is under way is over.
void NodeHost::settled(Done run) {
  if (moving_) {
    waiting_.push_back(std::move(run));
  } else {
    run();
  }
}

void NodeHost::move(std::vector<PortId> ports, ShardId to, Moved done) {
  const auto move = std::make_shared<Move>();
  move->ports = std::move(ports);
  move->to = to;
  move->done = std::move(done);
  // A worker that does not answer is found before anybody was told anything.
  post_all([](ShardHost&, Time) {}, [this, move] { settled([this, move] { start(move); }); });
}

void NodeHost::start(const std::shared_ptr<Move>& move) {
  move->from = node_.owner(move->ports.front());
  if (move->from == move->to) {
    if (move->done) move->done(move->from);
    return;
  }
  moving_ = true;
  under_way_ = move;
  move->taken.resize(move->ports.size());
  for (const PortId port : move->ports) node_.set_owner(port, move->to);
  post_to_all([](ShardHost&, Time) {}, [this, move] { take_away(move); });
}

void NodeHost::take_away(const std::shared_ptr<Move>& move) {
  held_until_ = clock_.now() + hold_;
  const Command take = [move](ShardHost& host, Time now) {
    host.take_in(now);
    for (std::size_t i = 0; i < move->ports.size(); ++i) {
      host.take(move->ports[i], move->taken[i]);
    }
  };
  post_to(move->from, take, [this, move] {
    move->let_go = true;
    put_down(move);
  });
}

void NodeHost::put_down(const std::shared_ptr<Move>& move) {
  held_until_ = clock_.now() + hold_;
  const Command take_in = [](ShardHost& host, Time now) { host.take_in(now); };
  const Command put = [move](ShardHost& host, Time now) { host.put(move->taken, now); };
  post_to_all(take_in, [this, move, put] {
    // Once more the new owner's clock has been read since the old one's: no link's time goes back.
    post_to(move->to, put, [this, move] {
      end([move] {
        if (move->done) move->done(move->from);
      });
    });
  });
}

void NodeHost::end(const Done& done) {
  moving_ = false;
  under_way_ = nullptr;
  held_until_ = {};
  if (done) done();
  for (Done& run : std::exchange(waiting_, {})) settled(std::move(run));
}

ShardId NodeHost::holder(PortId port) const {
  if (under_way_ != nullptr && !under_way_->let_go) {
    const std::vector<PortId>& ports = under_way_->ports;
    if (std::find(ports.begin(), ports.end(), port) != ports.end()) return under_way_->from;
  }
  return owner(port);
}

// --- ports that come and go ---

/// A ring from one worker to another that takes the place of a former one.
struct NodeHost::Replaced {
  explicit Replaced(std::size_t buffers)
      : ring(std::make_unique<runtime::BufferRing>(buffers)), now(*ring) {}
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;
  /// The node may end between the two steps.
  ~Replaced() {
    Buffer* buffer = nullptr;
    while (ring->pop(buffer)) give_back(buffer);
  }
  std::unique_ptr<runtime::BufferRing> ring;  ///< the former one as soon as nobody passes into it
  runtime::BufferRing& now;
};

void NodeHost::make_room(std::size_t buffers, Done done) {
  // As before a move.
  post_all([](ShardHost&, Time) {},
           [this, buffers, done = std::move(done)] {
             settled([this, buffers, done] { replace_rings(buffers, done); });
           });
}

/// What is asked of workers meanwhile need not wait: they do it after what is posted here. So by
/// the time that a move has been seen by all of them (start()), they pass by the new rings, and who
/// takes a port or lets go of it has been asked to read these before.
void NodeHost::replace_rings(std::size_t buffers, const Done& done) {
  const Done then = [this, done] {
    if (done) settled(done);
  };
  if (room_ >= buffers) return post_to_all([](ShardHost&, Time) {}, then);  // after the last ones
  room_ = buffers;
  const std::size_t workers = hosts_.size();
  const auto left = std::make_shared<std::size_t>(workers * (workers - 1));
  if (*left == 0) return then();
  held_until_ = clock_.now() + hold_;
  passing_by_ += *left;
  for (const auto& from : hosts_) {
    for (const auto& to : hosts_) {
      if (from == to) continue;
      replace_ring(from->id(), to->id(), [left, then] {
        if (--*left == 0) then();
      });
    }
  }
}

/// Each pair of workers goes on by itself: while one has passed by the new ring and the other does
/// not read it yet, all between them waits.
void NodeHost::replace_ring(ShardId from, ShardId to, Done done) {
  const auto replaced = std::make_shared<Replaced>(room_);
  const Command pass_by = [replaced, to](ShardHost& host, Time) {
    host.pass_by(to, replaced->ring);
  };
  const Command read_from = [replaced](ShardHost& host, Time now) {
    host.read_from(*replaced->ring, replaced->now, now);
  };
  post_to(from, pass_by, [this, to, read_from, done = std::move(done)] {
    if (--passing_by_ == 0) held_until_ = {};
    post_to(to, read_from, done);
  });
}

void NodeHost::add(network::PortConfig config, ShardHost::MovingPort parts, bool enabled,
                   Done done) {
  const auto added = std::make_shared<std::vector<ShardHost::MovingPort>>();
  added->push_back(std::move(parts));
  settled([this, added, config = std::move(config), enabled, done = std::move(done)] {
    const PortId port = config.link.port;
    const ShardId shard = config.shard;
    node_.set_port(port, config);
    added->front().port.link = hosts_[shard.value()]->make_link(config.link);
    post_to(
        shard,
        [added, port, enabled](ShardHost& host, Time now) {
          host.put(*added, now);
          if (enabled) host.enable(port, now);
        },
        done);
  });
}

void NodeHost::close(PortId port, Done done) {
  const auto pacer = std::make_shared<std::unique_ptr<phy::Pacer>>();
  const auto impairment = std::make_shared<std::unique_ptr<phy::Impairment>>();
  post(
      port,
      [pacer, impairment, port](ShardHost& host, Time now) {
        *impairment = host.impair(port, nullptr, now);
        *pacer = host.pace(port, nullptr);
        host.disable(port, now);
      },
      std::move(done));
}

void NodeHost::remove(PortId port, Done done) {
  const auto removed = std::make_shared<ShardHost::MovingPort>();
  post(
      port, [removed, port](ShardHost& host, Time) { host.remove(port, *removed); },
      [this, port, done = std::move(done)] {
        network::PortConfig none;
        none.shard = kNoShard;
        node_.set_port(port, std::move(none));
        if (done) done();
      });
}

void NodeHost::read(Read done) {
  readers_.push_back(std::move(done));
  if (!reading_) take_reading();
}

void NodeHost::take_reading() {
  reading_ = true;
  const auto readers = std::make_shared<std::vector<Read>>(std::exchange(readers_, {}));
  const auto readings = std::make_shared<std::vector<ShardReading>>();
  for (const auto& host : hosts_) readings->push_back(host->blank_reading());
  post_all(
      [readings](ShardHost& host, Time now) { host.read((*readings)[host.id().value()], now); },
      [this, readings, readers] {
        reading_ = false;
        if (!readers_.empty()) take_reading();
        for (const Read& reader : *readers) reader(*readings);
      });
}

std::uint64_t NodeHost::untold(PortId port) const {
  return std::accumulate(
      hosts_.begin(), hosts_.end(), std::uint64_t{0},
      [port](std::uint64_t sum, const auto& host) { return sum + host->untold(port); });
}

void NodeHost::expect_echoes(std::size_t waiting) {
  for (const auto& host : hosts_) host->expect_echoes(waiting);
}

bool NodeHost::take(EventRing& ring) {
  Event event;
  for (std::size_t n = 0; n < kDispatch && ring.pop(event); ++n) told_.push_back(event);
  return !ring.empty();
}

bool NodeHost::dispatch(const std::function<void(const Event&)>& handle) {
  told_.clear();
  bool more = false;
  for (const auto& host : hosts_) {
    host->renotify();
    more |= take(host->events());
    more |= take(host->echoes());
  }
  // After the events were taken: the completion of the command that made an echo request was left
  // before the event of its reply, so it is called first.
  collect();
  hold_on();
  for (const Event& event : told_) handle(event);
  return more;
}

void NodeHost::collect() {
  for (const auto& host : hosts_) host->worker().collect();
}

/// Sleeps in between: a worker that is waited for may share this thread's CPU.
void NodeHost::hold_on() {
  while (held_until_ != Time{} && clock_.now() < held_until_) {
    std::this_thread::sleep_for(kLookAgain);
    collect();
  }
}

}  // namespace mtl::switchd
