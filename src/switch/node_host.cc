#include "switch/node_host.h"

#include <utility>

namespace mtl::switchd {

NodeHost::NodeHost(Config config, const runtime::Clock& clock)
    : node_(std::move(config.node)),
      tables_(static_cast<unsigned>(node_.config().shards), std::move(config.table)) {
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

void NodeHost::post(PortId port, Command command, Done done) {
  ShardHost& host = *hosts_[node_.config().ports[port.value()].shard.value()];
  host.worker().post([&host, command = std::move(command)](Time now) { command(host, now); },
                     std::move(done));
}

void NodeHost::post_all(Command command, Done done) {
  // Completions all come on this thread: a plain count will do.
  const auto left = std::make_shared<std::size_t>(hosts_.size());
  for (const auto& host : hosts_) {
    host->worker().post([&host = *host, command](Time now) { command(host, now); },
                        [left, done] {
                          if (--*left == 0 && done) done();
                        });
  }
}

void NodeHost::read(std::function<void(const std::vector<ShardReading>&)> done) {
  const auto readings = std::make_shared<std::vector<ShardReading>>();
  for (const auto& host : hosts_) readings->push_back(host->blank_reading());
  post_all(
      [readings](ShardHost& host, Time now) { host.read((*readings)[host.id().value()], now); },
      [readings, done = std::move(done)] { done(*readings); });
}

std::uint64_t NodeHost::untold(PortId port) const {
  return hosts_[node_.config().ports[port.value()].shard.value()]->untold(port);
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
  for (const auto& host : hosts_) host->worker().collect();
  for (const Event& event : told_) handle(event);
  return more;
}

}  // namespace mtl::switchd
