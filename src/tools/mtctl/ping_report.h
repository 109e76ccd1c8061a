#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>

#include "mtlink/control.pb.h"

/// What `mtctl ping` and `mtctl trace` print.
namespace mtl::tools {

/// Sums up a series of pings.
class PingSummary {
 public:
  void add(const mtlink::control::PingResult& result);
  std::uint64_t sent() const { return sent_; }
  std::uint64_t lost() const { return sent_ - received_; }
  /// "--- node 21 ping statistics ---" and so on.
  std::string text(std::uint32_t node) const;
  boost::json::object json() const;

 private:
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t min_ns_ = 0, max_ns_ = 0, sum_ns_ = 0;
};

/// One line about ping number `seq` of `bytes` of data to `node`.
std::string ping_line(const mtlink::control::PingResult& result, std::uint32_t node,
                      std::uint64_t seq, std::uint32_t bytes, std::uint32_t timeout_ms);

/// One line about a hop.
std::string hop_line(const mtlink::control::TraceHop& hop);

}  // namespace mtl::tools
