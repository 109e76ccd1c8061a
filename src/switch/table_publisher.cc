#include "switch/table_publisher.h"

#include <rte_rcu_qsbr.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace mtl::switchd {

void TablePublisher::Free::operator()(rte_rcu_qsbr* state) const {
  std::free(state);
}

TablePublisher::TablePublisher(unsigned readers, network::RouteTable first)
    : owned_(std::make_unique<const network::RouteTable>(std::move(first))),
      current_(owned_.get()) {
  const std::size_t bytes = rte_rcu_qsbr_get_memsize(readers);
  const std::size_t rounded = (bytes + RTE_CACHE_LINE_SIZE - 1) & ~(RTE_CACHE_LINE_SIZE - 1ul);
  state_.reset(static_cast<rte_rcu_qsbr*>(std::aligned_alloc(RTE_CACHE_LINE_SIZE, rounded)));
  if (state_ == nullptr || rte_rcu_qsbr_init(state_.get(), readers) != 0) throw std::bad_alloc();
  for (unsigned id = 0; id < readers; ++id) rte_rcu_qsbr_thread_register(state_.get(), id);
}

TablePublisher::~TablePublisher() = default;

void TablePublisher::publish(network::RouteTable table, std::function<void()> done) {
  auto fresh = std::make_unique<const network::RouteTable>(std::move(table));
  current_.store(fresh.get(), std::memory_order_release);
  std::swap(owned_, fresh);
  // After the store: who reports a quiescent state from here on has seen the new pointer.
  const std::uint64_t token = rte_rcu_qsbr_start(state_.get());
  retired_.push_back({token, std::move(fresh), std::move(done)});
}

std::size_t TablePublisher::reclaim() {
  while (!retired_.empty() &&
         rte_rcu_qsbr_check(state_.get(), retired_.front().token, false) == 1) {
    const Retired freed = std::move(retired_.front());
    retired_.pop_front();
    if (freed.done) freed.done();
  }
  return retired_.size();
}

void TablePublisher::online(unsigned id) {
  rte_rcu_qsbr_thread_online(state_.get(), id);
}
void TablePublisher::offline(unsigned id) {
  rte_rcu_qsbr_thread_offline(state_.get(), id);
}
void TablePublisher::quiescent(unsigned id) {
  rte_rcu_qsbr_quiescent(state_.get(), id);
}

}  // namespace mtl::switchd
