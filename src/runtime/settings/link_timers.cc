#include "runtime/settings/link_timers.h"

namespace mtl::runtime {
namespace {

using Message = mtlink::config::Timers;
using std::chrono::microseconds;

constexpr std::uint64_t kHourUs = 3'600'000'000;
constexpr std::uint32_t kMaxAckEvery = 16384;
constexpr std::uint32_t kMaxReplayLimit = 1'000'000;

/// A time and its field, 1 us to an hour.
struct Interval {
  const char* field;
  bool (Message::*has)() const;
  std::uint64_t (Message::*get)() const;
  void (Message::*set)(std::uint64_t);
  Duration link::Timers::*timer;
};

constexpr Interval kIntervals[] = {
    {"init_interval_us", &Message::has_init_interval_us, &Message::init_interval_us,
     &Message::set_init_interval_us, &link::Timers::init_interval},
    {"keepalive_interval_us", &Message::has_keepalive_interval_us, &Message::keepalive_interval_us,
     &Message::set_keepalive_interval_us, &link::Timers::keepalive_interval},
    {"dead_interval_us", &Message::has_dead_interval_us, &Message::dead_interval_us,
     &Message::set_dead_interval_us, &link::Timers::dead_interval},
    {"ack_delay_us", &Message::has_ack_delay_us, &Message::ack_delay_us, &Message::set_ack_delay_us,
     &link::Timers::ack_delay},
    {"replay_timeout_us", &Message::has_replay_timeout_us, &Message::replay_timeout_us,
     &Message::set_replay_timeout_us, &link::Timers::replay_timeout},
    {"nack_interval_us", &Message::has_nack_interval_us, &Message::nack_interval_us,
     &Message::set_nack_interval_us, &link::Timers::nack_interval},
    {"hold_down_us", &Message::has_hold_down_us, &Message::hold_down_us, &Message::set_hold_down_us,
     &link::Timers::hold_down},
};

}  // namespace

link::Timers profile_timers(Message::Profile profile) {
  return profile == Message::FAST ? link::Timers{} : link::lab_timers();
}

std::vector<TimerFault> put_timers(const Message& message, link::Timers& timers) {
  std::vector<TimerFault> faults;
  const auto fits = [&](const char* field, std::uint64_t value, std::uint64_t most) {
    if (value >= 1 && value <= most) return true;
    faults.push_back({field, value, 1, most});
    return false;
  };
  for (const Interval& interval : kIntervals) {
    const std::uint64_t us = (message.*interval.get)();
    if ((message.*interval.has)() && fits(interval.field, us, kHourUs)) {
      timers.*interval.timer = microseconds(us);
    }
  }
  if (message.has_ack_every() && fits("ack_every", message.ack_every(), kMaxAckEvery)) {
    timers.ack_every = static_cast<std::uint16_t>(message.ack_every());
  }
  if (message.has_replay_limit() && fits("replay_limit", message.replay_limit(), kMaxReplayLimit)) {
    timers.replay_limit = message.replay_limit();
  }
  if (message.has_adaptive()) timers.adaptive = message.adaptive();
  return faults;
}

Result<link::Timers> link_timers(const Message& message) {
  link::Timers timers = profile_timers(message.profile());
  const std::vector<TimerFault> faults = put_timers(message, timers);
  if (faults.empty()) return timers;
  const TimerFault& first = faults.front();
  return Error{"timers." + first.field + " is " + std::to_string(first.value) + "; it must be " +
               std::to_string(first.least) + ".." + std::to_string(first.most)};
}

Message timers_message(const link::Timers& timers) {
  Message out;
  for (const Interval& interval : kIntervals) {
    const auto us = std::chrono::duration_cast<microseconds>(timers.*interval.timer);
    (out.*interval.set)(static_cast<std::uint64_t>(us.count()));
  }
  out.set_ack_every(timers.ack_every);
  out.set_replay_limit(timers.replay_limit);
  out.set_adaptive(timers.adaptive);
  return out;
}

}  // namespace mtl::runtime
