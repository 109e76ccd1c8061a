#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "control/file/message_file.h"
#include "mtlink/config.pb.h"
#include "network/node.h"
#include "network/route_table.h"
#include "phy/impairment.h"
#include "phy/pacer.h"
#include "phy/shared_device.h"
#include "topology/fabric.h"

/// From a configuration as people write it to what a node is built from. Control plane; pure:
/// nothing is opened, the machine is asked only through Host.
namespace mtl::switchd {

inline constexpr std::size_t kMaxPorts = 256;
inline constexpr std::size_t kMaxWorkers = 64;
inline constexpr std::uint32_t kMaxMtu = 61410;  ///< what a slot's longest frame, 61440, carries
inline constexpr std::uint32_t kDefaultMaxMtu = 9000;
/// Longest frame of a device that nobody knows before it is opened: plain Ethernet's.
inline constexpr std::uint32_t kUsualFrame = 1514;

/// What the checks want to know of the machine.
struct Host {
  /// CPUs that the process may use; empty: not checked.
  std::vector<std::uint32_t> cpus;
  /// Memory that the machine has; 0: not checked.
  std::uint64_t memory_mib = 0;
  /// Longest untagged frame that a Linux interface carries, bytes; an Error if there is no such
  /// interface. Empty: not asked, and kUsualFrame assumed.
  std::function<Result<std::uint32_t>(const std::string& interface)> longest_frame;
};

/// The CPUs of this process's affinity, the machine's memory, and the interfaces of its network
/// namespace.
Host this_host();

struct AfPacketDevice {
  std::string interface;
  std::uint32_t frames = 1024;  ///< in each kernel ring
};
struct EthdevDevice {
  std::string devargs;
  std::uint16_t receive_ring =
      1024;  ///< descriptors; each holds a buffer (counted in PortPlan::buffers)
  std::uint16_t send_ring = 1024;
};
/// A Linux interface through an AF_XDP socket.
struct AfXdpDevice {
  std::string interface;
  std::uint32_t frames = 1024;  ///< in each ring
};
struct TapDevice {
  std::string interface;
};
/// An interface through libpcap, or files instead.
struct PcapDevice {
  std::string interface;
  std::string receive_file;
  std::string send_file;
  bool overwrite = false;
};
/// One end of a cable within the node.
struct RingDevice {
  static constexpr std::uint16_t kFrames = 512;  ///< under way in each direction
  std::string name;
};
/// One end of memif.
struct MemifDevice {
  std::string socket;  ///< a path, or "@name"
  bool client = false;
  std::uint32_t id = 0;
  std::string secret;
  std::uint32_t ring_size = 1024;      ///< client: descriptors, a power of two
  std::uint32_t buffer_size = 0;       ///< client: bytes, a multiple of 64
  std::uint32_t max_region_mib = 128;  ///< server: of all of a client's memory

  /// Bytes of a client's memory, without the rings' words.
  std::uint64_t memory() const {
    return client ? std::uint64_t{2} * ring_size * (buffer_size + 16) : 0;
  }
};
/// A slot: a local port for a process on this host.
struct SlotDevice {
  NodeId node;  ///< of the endpoint that claims it
  std::vector<Partition> partitions;
  std::uint32_t ring_bytes = 1U << 20;  ///< each way
};
/// Of a number that no port has.
struct NoDevice {};
using Device = std::variant<NoDevice, AfPacketDevice, AfXdpDevice, TapDevice, PcapDevice,
                            RingDevice, MemifDevice, EthdevDevice, SlotDevice>;
/// The kind and whose it is: "af_packet eth0", "ring loop".
std::string text(const Device& device);

/// What a port needs beside its link (network::NodeConfig::ports, at the same index).
struct PortPlan {
  /// Whether there is a port of this number.
  bool present() const { return !std::holds_alternative<NoDevice>(device); }

  PortId port;
  std::string name;
  Device device;
  /// Our source MAC if configured, or a slot's; else the device's: the daemon puts it into
  /// link.mac.
  std::optional<Mac> mac;
  std::optional<VlanId> vlan;  ///< of the link's frames; none: they have no tag
  /// The first port on the same device, which may be this one: they share it (P3).
  PortId first_on_device;
  /// The first of the ports that have one worker with it, as they share a device or a trunk.
  PortId first_of_worker_group;
  bool worker_given = false;  ///< its first worker is that which the configuration names
  bool enabled = true;
  phy::ImpairmentConfig impairment;
  std::uint32_t impairment_depth =
      0;  ///< frames that may be held back: buffers are counted for them
  std::optional<phy::PacerConfig> rate;
  std::uint32_t max_frame = 0;  ///< longest frame of the link, bytes: 30 + mtu
  std::uint32_t buffers = 0;    ///< of the receive pool that this port alone may hold
};

/// Which frames of its device are a port's (P3).
phy::Share share_of(const link::Config& link, const PortPlan& plan);

/// How many buffers the node needs at worst, so that it never drops for want of one (L22):
///
///   port    = sum of its capacities: a packet of 16 bytes takes one cell and one buffer, so every
///   cell
///             may pin a buffer, held out of order or forwarded and unacknowledged alike
///           + kBurst: frames that the worker has in hand
///           + impairment_depth: frames held back
///           + descriptors of the device's rings: what the device was given to fill, and what it
///           still
///             reads though the peer has acknowledged it
///   receive = sum over the ports + kCache for each worker (buffers idle in its cache)
///   own     = kOwn for each worker: packets made here (echo errors, pings). They have a pool of
///   their
///             own, so that they never take what was promised to a peer; when it is empty, an error
///             or a ping is dropped, `no_buffer`, which no peer was promised
struct BufferPlan {
  static constexpr std::uint32_t kBurst = 64;
  static constexpr std::uint32_t kCache = 384;
  static constexpr std::uint32_t kOwn = 512;
  static constexpr std::uint32_t kImpairmentDepth = 256;
  /// What a buffer takes beside its room: mbuf and private area, headroom, pool header.
  static constexpr std::uint32_t kOverhead = 448;
  static constexpr std::uint32_t kMinRoom = 2048;

  std::uint32_t receive = 0;  ///< one pool, for ports move between workers
  std::uint32_t own = 0;      ///< a pool for each worker
  std::uint32_t room =
      0;  ///< bytes behind the headroom: longest tagged frame, rounded up, at least kMinRoom
};

/// Memory at worst, bytes, to be shown before anything starts.
struct MemoryPlan {
  std::uint64_t buffers = 0;      ///< both pools
  std::uint64_t local_rings = 0;  ///< of all slots, when claimed, and of memif where it is ours
  std::uint64_t links = 0;        ///< tables of the links
  std::uint64_t total() const { return buffers + local_rings + links; }
};

enum class LogFormat : std::uint8_t { kText, kJson };

struct RuntimePlan {
  std::vector<std::uint32_t>
      cpus;  ///< worker i is pinned to cpus[i]; empty: one worker, not pinned
  std::size_t workers = 1;
  bool poll = false;
  bool balance = false;       ///< ports are moved to less busy workers
  double balance_load = 0.8;  ///< only from such as are busier than this, as a share
  bool huge_pages = false;
  std::uint32_t memory_mib = 0;  ///< for EAL without huge pages
  std::vector<std::string> eal_args;
};

/// What a trunk needs beside its lanes (network::NodeConfig::trunks, at the same index).
struct TrunkPlan {
  std::string name;
};

/// A checked configuration, everything decided.
struct Plan {
  /// Host::longest_frame of the interfaces that it was asked for.
  std::map<std::string, std::uint32_t> frames;
  control::Located<mtlink::config::NodeConfig> file;  ///< what it was made of
  std::string name;
  network::NodeConfig node;     ///< link.mac is set for ports whose PortPlan::mac is
  std::vector<PortPlan> ports;  ///< port i at index i; numbers without a port may lie between
  std::vector<TrunkPlan> trunks;
  std::vector<network::Route> routes;     ///< trunks named by their leaders
  std::vector<topology::PortPeer> peers;  ///< ports whose peer is known
  std::optional<topology::Fabric> fabric;
  RuntimePlan runtime;
  std::string socket;
  LogFormat log_format = LogFormat::kText;
  BufferPlan buffers;
  MemoryPlan memory;
  std::vector<std::string> warnings;  ///< one sentence each, with their place
};

/// Bytes behind the headroom that buffers for the frames of `ports` need: BufferPlan::room for them
/// alone.
std::uint32_t room_for(const Plan& plan, const std::vector<PortId>& ports);

/// Lengthens the plan's tables to `count` numbers, the new ones without a port.
void add_numbers(Plan& plan, std::size_t count);

/// Checks `file` and decides everything it leaves open. The error has a line for each problem (at
/// most kMaxProblems): "file:line:column: field is such; what it must be".
Result<Plan> plan_node(const control::Located<mtlink::config::NodeConfig>& file, const Host& host);
inline constexpr std::size_t kMaxProblems = 20;

/// The routes of `mtctl routes set` for a running node: they replace all that it has, `in_force`.
/// Checked like those of a file, and for deadlock (N10) where the node's fabric is known: by
/// themselves, and together with those in force, by which packets are still under way. Problems
/// name "routes[i]...".
Result<std::vector<network::Route>> plan_routes(const mtlink::config::Routes& routes,
                                                const Plan& plan,
                                                const std::vector<network::Route>& in_force);

/// What is known of whether routes of a node can deadlock (N10). A node alone cannot tell.
enum class DeadlockCheck : std::uint8_t {
  kProved,     ///< cannot, if the other nodes take their routes from the same `fabric`
  kUnproved,   ///< by hand, and no `fabric` says what the other nodes are
  kNotNeeded,  ///< cannot: they lead to neighbours alone, where packets end and wait for nothing
};
/// Of routes that plan_node() or plan_routes() let pass.
DeadlockCheck deadlock_check(const Plan& plan, const std::vector<network::Route>& routes);
/// Its name in the control API: proved, unproved, not_needed.
const char* name(DeadlockCheck check);
/// What to say where it is kUnproved, with the remedy.
extern const char* const kUnprovedRoutes;

/// The impairment of `mtctl impair`, checked.
Result<phy::ImpairmentConfig> plan_impairment(const mtlink::config::Impairment& impairment);

/// The numbers that have a port, for sentences: "0..3, 7".
std::string numbers(const std::vector<PortPlan>& ports);
/// How many have.
std::size_t count(const std::vector<PortPlan>& ports);

/// What `--check` prints: ports, buffers and memory, and how many routes.
std::string describe(const Plan& plan);

}  // namespace mtl::switchd
