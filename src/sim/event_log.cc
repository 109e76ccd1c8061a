#include "sim/event_log.h"

#include <utility>

namespace mtl::sim {

void EventLog::line(Time now, std::string text) {
  std::string whole = std::to_string(nanos(now)) + ' ' + std::move(text);
  for (const char c : whole) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  ++count_;
  lines_.push_back(std::move(whole));
  if (lines_.size() > keep_) lines_.pop_front();
}

}  // namespace mtl::sim
