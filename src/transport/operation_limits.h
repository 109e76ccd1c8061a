#pragma once

#include <chrono>
#include <cstdint>

#include "base/time.h"
#include "transport/settings.h"

namespace mtl::transport {

/// What operations and messages take. Everything that is allocated follows from it.
struct Limits {
  std::uint32_t operations = 4096;  ///< posted and not taken back, of all connections, 1 and up
  std::uint32_t keys = 1024;        ///< given at a time
  /// How long an operation that may wait (kMayWait) does at most before it leaves, if it can.
  Duration pack_delay = std::chrono::microseconds(2);

  std::uint32_t receives = 1024;    ///< posted and not taken back, of all pools
  std::uint32_t receive_pools = 1;  ///< 1 and up
  /// Messages that have been let come and are not received, of all connections; at least one for
  /// each, if messages may come at all. With fewer than Settings::messages for each, part of them
  /// is given in turn (T33).
  std::uint32_t message_records = 4096;
  /// Bytes for the data of messages that came before their receive (T34), of all connections.
  std::uint32_t eager_room = 4 << 20;
};

/// What is wrong with `limits` for a node with `settings`, or nullptr: names the field and its
/// range.
const char* fault(const Limits& limits, const Settings& settings);

}  // namespace mtl::transport
