#include "switch/config/rate_plan.h"

#include <chrono>

#include "link/codec.h"
#include "runtime/settings/rate.h"

namespace mtl::switchd {
namespace {

std::string us(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(d).count()) + " us";
}

/// A frame that is under way holds up the next one for its wire time, an ack or keepalive too.
void warn_of_timers(const phy::PacerConfig& rate, const std::string& path, const link::Config& link,
                    Problems& problems) {
  const std::uint32_t longest = static_cast<std::uint32_t>(link::kFrameHeader) + link.mtu;
  const Duration takes = phy::wire_time(rate, longest);
  const std::string frame = "is " + std::to_string(rate.bits_per_second) +
                            ", at which a longest frame (" + std::to_string(longest) +
                            " bytes) takes the wire for " + us(takes);
  const link::Timers& t = link.timers;
  if (takes >= t.dead_interval) {
    problems.warn(path + ".bps", frame + ", not less than dead_interval_us, which is " +
                                     us(t.dead_interval) +
                                     ": the peer takes the link for dead; raise dead_interval_us "
                                     "at both ends, lower mtu, or raise the rate");
  }
  const Duration patience = t.adaptive ? t.adaptive_max : t.replay_timeout;
  if (takes < patience) return;
  problems.warn(path + ".bps",
                frame + ", not less than the replay timeout, which is " +
                    (t.adaptive ? "at most " : "") + us(patience) +
                    ": frames are sent again before their acks can come; " +
                    (t.adaptive ? "set adaptive: false and raise replay_timeout_us"
                                : "raise replay_timeout_us") +
                    " at both ends to three times as much, lower mtu, or raise the rate");
}

}  // namespace

std::optional<phy::PacerConfig> plan_rate(const mtlink::config::Rate& from, const std::string& path,
                                          const link::Config& link, Problems& problems) {
  const phy::PacerConfig rate = runtime::pacer_config(from);
  const bool good_rate =
      problems.range(path + ".bps", rate.bits_per_second, phy::kMinRate, phy::kMaxRate);
  if (!problems.range(path + ".overhead", rate.overhead, 0, phy::kMaxOverhead) || !good_rate) {
    return std::nullopt;
  }
  warn_of_timers(rate, path, link, problems);
  return rate;
}

}  // namespace mtl::switchd
