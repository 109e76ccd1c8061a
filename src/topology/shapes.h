#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mtlink/topology.pb.h"

namespace mtl::topology {

/// What `mtlink-config generate` is asked for. What is absent takes the family's default, or is
/// worked out from the rest; what cannot apply to the family is an error.
struct Wanted {
  std::string topology;                    ///< a family or a preset, in any case
  std::string name;                        ///< of the fabric; default family and count
  std::optional<std::uint32_t> gpu_count;  ///< accelerators
  std::optional<std::uint64_t> bandwidth;  ///< of an accelerator into the fabric, bits per second
  std::optional<std::uint64_t> lane;       ///< bits per second of a lane (200G)
  std::optional<std::uint32_t> radix;      ///< ports of a switch
  std::optional<std::uint32_t> levels;     ///< of a Clos: 2 or 3
  std::optional<std::uint32_t>
      oversubscription;                  ///< of a Clos: ports down for each port up of a leaf
  std::optional<std::uint32_t> planes;   ///< of a flat fabric
  std::optional<std::uint32_t> rails;    ///< accelerators of a host
  std::vector<std::uint32_t> size;       ///< of a torus or mesh, by dimension
  std::optional<std::uint32_t> groups;   ///< of a dragonfly
  std::optional<std::uint32_t> routers;  ///< of a dragonfly's group
  std::optional<std::uint32_t> hosts;    ///< accelerators at a dragonfly's router
  std::optional<std::uint32_t> global;   ///< links to other groups of a dragonfly's router
  std::uint64_t delay_ns = 0;            ///< of every link
  std::optional<std::uint32_t> mtu;      ///< of every link
};

/// The fabric with its arithmetic, and for a preset its sources. Errors name the number that does
/// not go, the arithmetic, and numbers that would.
Result<mtlink::topology::Topology> generate(const Wanted& wanted);

/// A family or preset as a user may choose it.
struct Choice {
  std::string name;
  std::string about;  ///< one line
};
std::vector<Choice> families();
std::vector<Choice> presets();

/// "1.6T", "800G", "1000": bits per second; an error for anything else.
Result<std::uint64_t> parse_rate(const std::string& text);
/// "4x4x4".
Result<std::vector<std::uint32_t>> parse_size(const std::string& text);

}  // namespace mtl::topology
