#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "phy/dpdk/ethdev_port.h"

struct rte_ring;

namespace mtl::phy {

/// A cable within the process: what goes into one end by DPDK's net_ring comes out of the other, as
/// a copy of the sender's. Outlives the ports on its ends. Control thread.
class RingCable {
 public:
  /// The cable of this name: the one whose other end is held already, else a new one that holds
  /// `frames` under way in each direction. Error: both ends are held; no memory. Needs a started
  /// Eal.
  static Result<std::shared_ptr<RingCable>> take_end(const std::string& name, std::uint32_t frames);
  /// Frees what is still under way.
  ~RingCable();
  RingCable(const RingCable&) = delete;
  RingCable& operator=(const RingCable&) = delete;

  /// Opens a port on the end that has none.
  Result<std::unique_ptr<EthdevPort>> open(MbufPool& pool, EthdevOptions options);
  /// The port on an end was closed: the end is free for another.
  void closed(std::uint16_t id);
  /// Whether both ends have a port: carrier.
  bool whole() const { return ports_[0] != kNone && ports_[1] != kNone; }

 private:
  static constexpr std::uint16_t kNone = 0xFFFF;
  explicit RingCable(std::string name) : name_(std::move(name)) {}

  std::string name_;
  rte_ring* lanes_[2]{};  ///< [i]: towards end i
  std::uint16_t ports_[2]{kNone, kNone};
};

}  // namespace mtl::phy
