#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/time.h"
#include "network/node.h"
#include "runtime/random.h"
#include "transport/operations.h"

namespace mtl::endpoint {

/// The transport of an endpoint, between its owner and its shard: what arrives is given to it, what
/// it has to send is submitted as far as the link takes it. One thread.
class TransportHost final : private transport::RandomWords {
 public:
  /// Packets of ours that may wait for the link, at most: more would only be older when they leave.
  static constexpr std::uint32_t kAhead = 64;

  /// `settings` and `limits` have no fault(). What is given outlives the host.
  TransportHost(const transport::Settings& settings, const transport::Limits& limits,
                network::Shard& shard, BufferPool& pool, runtime::RandomStock& random);
  ~TransportHost();
  TransportHost(const TransportHost&) = delete;
  TransportHost& operator=(const TransportHost&) = delete;

  transport::Operations& operations() { return operations_; }

  /// A packet of proto 1 that was delivered; only looked at.
  void receive(std::span<const std::byte> packet, Time now) { transport().receive(packet, now); }
  /// Fires what is due, and sends what may leave; returns whether that was anything.
  bool work(Time now);
  /// When work() has something to do even if nothing is posted and nothing arrives.
  Time next_deadline() const { return operations_.transport().next_deadline(); }
  /// Whether work() would send something now.
  bool wants_to_send() const { return operations_.transport().wants_to_send() && link_takes(); }

 private:
  // transport::RandomWords
  std::uint64_t draw() override;

  transport::Transport& transport() { return operations_.transport(); }
  bool link_takes() const;

  network::Shard& shard_;
  BufferPool& pool_;
  runtime::RandomStock& random_;
  const std::uint32_t ahead_;
  transport::Operations operations_;
  Buffer* spare_ = nullptr;  ///< taken from the pool, and not filled
};

}  // namespace mtl::endpoint
