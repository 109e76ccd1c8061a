#include "runtime/settings/rate.h"

namespace mtl::runtime {

phy::PacerConfig pacer_config(const mtlink::config::Rate& message) {
  phy::PacerConfig config;
  config.bits_per_second = message.bps();
  if (message.has_overhead()) config.overhead = message.overhead();
  return config;
}

mtlink::config::Rate rate_message(const phy::PacerConfig& config) {
  mtlink::config::Rate message;
  message.set_bps(config.bits_per_second);
  message.set_overhead(config.overhead);
  return message;
}

}  // namespace mtl::runtime
