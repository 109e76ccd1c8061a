#include "transport/congestion.h"

#include <algorithm>

namespace mtl::transport {
namespace {

constexpr std::uint32_t kOne = 256;

}  // namespace

void CongestionWindow::start(std::uint32_t first, std::uint32_t most, Duration rtt_target) {
  *this = CongestionWindow{};
  most_ = most * kOne;
  target_ = rtt_target;
  set(std::min(first, most) * kOne);
}

void CongestionWindow::set(std::uint32_t window) {
  window_ = std::clamp(window, kOne, most_);
}

void CongestionWindow::set_most(std::uint32_t packets) {
  most_ = packets * kOne;
  set(window_);
}

void CongestionWindow::acknowledged(std::uint32_t n, std::uint32_t marks, std::uint32_t in_flight) {
  if (marks > 0) slow_start_ = false;
  const std::uint64_t down = std::uint64_t{marks} * kOne / 2;
  set(down >= window_ ? kOne : window_ - static_cast<std::uint32_t>(down));
  const bool used = 2 * std::uint64_t{in_flight} * kOne >= window_;
  if (n <= marks || !used) return;
  const std::uint64_t up = n - marks;
  const std::uint64_t raised = window_ + (slow_start_ ? up * kOne : up * kOne * kOne / window_);
  set(static_cast<std::uint32_t>(std::min<std::uint64_t>(raised, most_)));
}

void CongestionWindow::timed_out() {
  slow_start_ = false;
  set(window_ / 2);
}

void CongestionWindow::round_sample(Duration rtt) {
  lowest_ = std::min(lowest_, rtt);
}

void CongestionWindow::round_trip(Psn ack, Psn next) {
  if (target_ == Duration{0}) return;
  if (round_begun_ && !ack.after(round_end_)) return;
  if (round_begun_ && lowest_ != Duration::max() && lowest_ > target_) {
    const auto r = static_cast<std::uint64_t>(lowest_.count());
    const auto over = static_cast<std::uint64_t>((lowest_ - target_).count());
    slow_start_ = false;
    set(window_ - static_cast<std::uint32_t>(window_ * over / (2 * r)));
  }
  round_begun_ = true;
  round_end_ = next;
  lowest_ = Duration::max();
}

}  // namespace mtl::transport
