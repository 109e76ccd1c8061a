#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "link/config.h"
#include "mtlink/config.pb.h"

/// The timers of a link as messages spell them: in configurations, and in what a daemon grants.
namespace mtl::runtime {

/// The values of a profile: lab unless it says fast.
link::Timers profile_timers(mtlink::config::Timers::Profile profile);

/// A field of the message whose value is out of range.
struct TimerFault {
  std::string field;
  std::uint64_t value;
  std::uint64_t least;
  std::uint64_t most;
};

/// Puts the values that `message` gives, its profile aside, in the place of those in `timers`. A
/// value out of range is left out and returned. How the values go together is not looked at.
std::vector<TimerFault> put_timers(const mtlink::config::Timers& message, link::Timers& timers);

/// The timers that a whole message means: its profile's, with what it gives in their place. The
/// error names the first field that is out of range.
Result<link::Timers> link_timers(const mtlink::config::Timers& message);

/// Every timer by its own field, so that the receiver needs no profile.
mtlink::config::Timers timers_message(const link::Timers& timers);

}  // namespace mtl::runtime
