#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "network/route_table.h"

struct rte_rcu_qsbr;

namespace mtl::switchd {

/// The routes of a node as its workers see them: an immutable table behind one pointer, replaced by
/// the control thread and freed when no worker can look at the old one any more (RCU, quiescent
/// states).
///
/// A worker is a Reader. It loads the pointer at the start of a pass and forgets it before it says
/// that it is quiescent; while it sleeps it is offline, so nobody waits for a sleeper.
class TablePublisher {
 public:
  /// For readers 0 to `readers` - 1. Throws std::bad_alloc.
  TablePublisher(unsigned readers, network::RouteTable first);
  ~TablePublisher();  ///< after the last reader has gone offline
  TablePublisher(const TablePublisher&) = delete;
  TablePublisher& operator=(const TablePublisher&) = delete;

  // The control thread.

  /// Makes `table` the current one. `done` (may be empty) is called by reclaim() once every reader
  /// has let go of the one before it: from then on all packets go by the new one.
  void publish(network::RouteTable table, std::function<void()> done);
  /// Frees the tables that no reader can hold; never waits. Returns how many still wait.
  std::size_t reclaim();
  /// The table in force.
  const network::RouteTable& current() const { return *owned_; }

  // Reader `id`, on its own thread.
  void online(unsigned id);
  void offline(unsigned id);
  /// Reader `id` holds no table at this moment; then it may load() the current one.
  void quiescent(unsigned id);
  const network::RouteTable* load() const { return current_.load(std::memory_order_acquire); }

 private:
  struct Retired {
    std::uint64_t token;
    std::unique_ptr<const network::RouteTable> table;
    std::function<void()> done;
  };
  struct Free {
    void operator()(rte_rcu_qsbr* state) const;
  };

  std::unique_ptr<rte_rcu_qsbr, Free> state_;
  std::unique_ptr<const network::RouteTable> owned_;
  std::atomic<const network::RouteTable*> current_;
  std::deque<Retired> retired_;  ///< oldest first
};

}  // namespace mtl::switchd
