#include "sim/summary.h"

namespace mtl::sim {
namespace {

using Field = std::uint64_t Summary::*;
constexpr std::pair<std::string_view, Field> kFields[] = {
    {"runs", &Summary::runs},
    {"packets", &Summary::packets},
    {"delivered", &Summary::delivered},
    {"copies", &Summary::copies},
    {"refused", &Summary::refused},
    {"lost_in_restart", &Summary::lost_in_restart},
    {"poisoned_packets", &Summary::poisoned},
    {"bad_at_source", &Summary::bad_at_source},
    {"frames", &Summary::frames},
    {"frame_hops", &Summary::frame_hops},
    {"late_frames", &Summary::late_frames},
    {"too_late", &Summary::too_late},
    {"events", &Summary::events},
    {"node_restarts", &Summary::node_restarts},
    {"cuts", &Summary::cuts},
    {"silent_cuts", &Summary::silent_cuts},
    {"seq_wraps", &Summary::seq_wraps},
    {"credit_wraps", &Summary::credit_wraps},
    {"ups", &Summary::ups},
    {"replays", &Summary::replays},
    {"replay_timeouts", &Summary::replay_timeouts},
    {"polls", &Summary::polls},
    {"credit_stalls", &Summary::credit_stalls},
    {"held_discarded", &Summary::held_discarded},
    {"nacks", &Summary::nacks},
    {"handed_back", &Summary::handed_back},
    {"rerouted", &Summary::rerouted},
    {"forwarded", &Summary::forwarded},
    {"between_shards", &Summary::between_shards},
    {"moves", &Summary::moves},
    {"replaced", &Summary::replaced},
    {"moves_beside_replaced", &Summary::moves_beside_replaced},
    {"marked", &Summary::marked},
    {"lane_moves", &Summary::lane_moves},
    {"lane_forced", &Summary::lane_forced},
    {"lane_handed_back", &Summary::lane_handed_back},
    {"ordered_across", &Summary::ordered_across},
    {"by_queue", &Summary::by_queue},
    {"replies", &Summary::replies},
    {"errors", &Summary::errors},
    {"quiet_checks", &Summary::quiet_checks},
    {"quiet_occupied", &Summary::quiet_occupied},
};

// What a good sample of pairs must show, and what only fabrics can.
constexpr std::string_view kNeeded[] = {"copies",
                                        "lost_in_restart",
                                        "poisoned_packets",
                                        "bad_at_source",
                                        "late_frames",
                                        "cuts",
                                        "node_restarts",
                                        "silent_cuts",
                                        "seq_wraps",
                                        "credit_wraps",
                                        "replays",
                                        "replay_timeouts",
                                        "polls",
                                        "credit_stalls",
                                        "held_discarded",
                                        "nacks",
                                        "handed_back",
                                        "rerouted",
                                        "between_shards",
                                        "replies",
                                        "errors",
                                        "quiet_occupied",
                                        "refused",
                                        "lane_moves",
                                        "lane_forced",
                                        "lane_handed_back",
                                        "ordered_across",
                                        "by_queue",
                                        "moves",
                                        "replaced"};
constexpr std::string_view kNeededOfFabrics[] = {"forwarded", "marked", "moves_beside_replaced"};
constexpr Drop kNeededDrops[] = {Drop::kMalformed,  Drop::kBadHeaderCrc, Drop::kStale,
                                 Drop::kDuplicate,  Drop::kBadPacketCrc, Drop::kPoisoned,
                                 Drop::kWrongClass, Drop::kNoRoute};
constexpr Drop kNeededDropsOfFabrics[] = {Drop::kSpoofed, Drop::kWrongPartition,
                                          Drop::kHopLimitExceeded};

std::string down_name(std::size_t i) {
  return std::string("down_") + link::name(static_cast<link::DownReason>(i));
}

}  // namespace

Summary& Summary::operator+=(const Summary& other) {
  for (const auto& [field_name, field] : kFields) this->*field += other.*field;
  for (std::size_t i = 0; i < downs.size(); ++i) downs[i] += other.downs[i];
  for (std::size_t i = 0; i < drops.size(); ++i) drops[i] += other.drops[i];
  virtual_ns += other.virtual_ns;
  return *this;
}

std::vector<std::pair<std::string, std::uint64_t>> Summary::list() const {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (const auto& [field_name, field] : kFields) {
    all.emplace_back(std::string(field_name), this->*field);
  }
  for (std::size_t i = 1; i < downs.size(); ++i) all.emplace_back(down_name(i), downs[i]);
  for (std::size_t i = 0; i < drops.size(); ++i) {
    all.emplace_back("drop_" + std::string(name(static_cast<Drop>(i))), drops[i]);
  }
  return all;
}

std::vector<std::string> Summary::missing_kinds(bool fabrics) const {
  std::vector<std::string> missing;
  const auto need = [&](std::string_view wanted) {
    for (const auto& [field_name, field] : kFields) {
      if (field_name == wanted && this->*field == 0) missing.emplace_back(wanted);
    }
  };
  const auto need_drop = [&](Drop reason) {
    if (drop(reason) == 0) missing.push_back("drop_" + std::string(name(reason)));
  };
  for (const std::string_view wanted : kNeeded) need(wanted);
  for (const Drop reason : kNeededDrops) need_drop(reason);
  for (std::size_t i = 1; i < downs.size(); ++i) {
    if (downs[i] == 0) missing.push_back(down_name(i));
  }
  if (fabrics) {
    for (const std::string_view wanted : kNeededOfFabrics) need(wanted);
    for (const Drop reason : kNeededDropsOfFabrics) need_drop(reason);
  }
  return missing;
}

}  // namespace mtl::sim
