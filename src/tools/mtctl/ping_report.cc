#include "tools/mtctl/ping_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/mtctl/table.h"

namespace mtl::tools {

using mtlink::control::PingResult;

void PingSummary::add(const PingResult& result) {
  ++sent_;
  if (result.outcome() != PingResult::REPLY) return;
  const auto ns = result.round_trip_ns();
  min_ns_ = received_ == 0 ? ns : std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  sum_ns_ += ns;
  ++received_;
}

std::string PingSummary::text(std::uint32_t node) const {
  std::string text = fmt::format("\n--- node {} ping statistics ---\n{} sent, {} received, {} lost",
                                 node, sent_, received_, share(lost(), sent_));
  if (received_ > 0)
    text += fmt::format("\nround trip min/avg/max = {} / {} / {}", milliseconds(min_ns_),
                        milliseconds(sum_ns_ / received_), milliseconds(max_ns_));
  return text + "\n";
}

boost::json::object PingSummary::json() const {
  boost::json::object summary{{"sent", sent_}, {"received", received_}, {"lost", lost()}};
  if (received_ > 0) {
    summary["round_trip_min_ns"] = min_ns_;
    summary["round_trip_avg_ns"] = sum_ns_ / received_;
    summary["round_trip_max_ns"] = max_ns_;
  }
  return summary;
}

std::string ping_line(const PingResult& result, std::uint32_t node, std::uint64_t seq,
                      std::uint32_t bytes, std::uint32_t timeout_ms) {
  switch (result.outcome()) {
    case PingResult::REPLY:
      return fmt::format("{} bytes from node {}: seq={} time={}\n", bytes, result.from(), seq,
                         milliseconds(result.round_trip_ns()));
    case PingResult::TIMEOUT:
      return fmt::format("no reply from node {}: seq={} within {} ms\n", node, seq, timeout_ms);
    case PingResult::HOP_LIMIT_EXCEEDED:
      return fmt::format("from node {}: seq={} hop limit exceeded\n", result.from(), seq);
    case PingResult::UNREACHABLE:
      return fmt::format("from node {}: seq={} node {} unreachable\n", result.from(), seq, node);
    default:
      return fmt::format("seq={} an outcome that this mtctl does not know\n", seq);
  }
}

std::string hop_line(const mtlink::control::TraceHop& hop) {
  const auto& result = hop.result();
  switch (result.outcome()) {
    case PingResult::REPLY:
    case PingResult::HOP_LIMIT_EXCEEDED:
      return fmt::format("{:>3}  node {}  {}\n", hop.hop(), result.from(),
                         milliseconds(result.round_trip_ns()));
    case PingResult::UNREACHABLE:
      return fmt::format("{:>3}  node {}  {}  unreachable from here\n", hop.hop(), result.from(),
                         milliseconds(result.round_trip_ns()));
    default:
      return fmt::format("{:>3}  *\n", hop.hop());
  }
}

}  // namespace mtl::tools
