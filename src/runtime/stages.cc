#include "runtime/stages.h"

namespace mtl::runtime {

const char* name(Stage stage) {
  switch (stage) {
    case Stage::kWorker:
      return "worker";
    case Stage::kDeviceReceive:
      return "device_receive";
    case Stage::kLinkReceive:
      return "link_receive";
    case Stage::kRings:
      return "rings";
    case Stage::kTimers:
      return "timers";
    case Stage::kOwner:
      return "owner";
    case Stage::kLinkSend:
      return "link_send";
    case Stage::kDeviceSend:
      return "device_send";
    case Stage::kFlush:
      return "flush";
    case Stage::kCount:
      break;
  }
  return "?";
}

void StageWatch::add_to(StageCounters& counters) const {
  counters.passes.add();
  for (std::size_t i = 0; i < kStages; ++i) {
    counters.ticks[i].add(ticks_[i]);
    counters.frames[i].add(frames_[i]);
  }
}

}  // namespace mtl::runtime
