#include "switch/config/device_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "link/codec.h"
#include "phy/af_xdp/longest_frame.h"
#include "switch/config/port_plan.h"

namespace mtl::switchd {
namespace {

constexpr std::size_t kMaxInterfaceName = 15;
constexpr std::size_t kMaxRingName = 16;
constexpr std::size_t kMaxSocketName = 107;
constexpr std::size_t kMaxSecret = 24;
constexpr std::uint32_t kMinMemifRing = 64;
constexpr std::uint32_t kMaxMemifRing = 16384;
constexpr std::uint32_t kMinMemifBuffer = 64;
constexpr std::uint32_t kMaxMemifBuffer = 65536;
constexpr std::uint64_t kMaxMemifMemory = 2'000'000'000;
constexpr std::uint32_t kMaxMemifRegionMib = 16384;

std::string in_quotes(const std::string& s) {
  return "\"" + s + "\"";
}

/// Reads one kind of device each; what is wrong becomes a problem, and the rest goes on.
class DevicePlanner {
 public:
  DevicePlanner(const DeviceSource& source, Problems& problems)
      : source_(source), problems_(problems) {}

  std::uint32_t plan(Device& out) {
    const mtlink::config::Port& port = source_.port;
    if (port.has_af_packet()) return af_packet(port.af_packet(), out.emplace<AfPacketDevice>());
    if (port.has_af_xdp()) return af_xdp(port.af_xdp(), out.emplace<AfXdpDevice>());
    if (port.has_tap()) return tap(port.tap(), out.emplace<TapDevice>());
    if (port.has_pcap()) return pcap(port.pcap(), out.emplace<PcapDevice>());
    if (port.has_ring()) return ring(port.ring(), out.emplace<RingDevice>());
    if (port.has_memif()) return memif(port.memif(), out.emplace<MemifDevice>());
    if (port.has_ethdev()) return ethdev(port.ethdev(), out.emplace<EthdevDevice>());
    problems_.add(
        source_.path,
        "has no device; give it af_packet, af_xdp, tap, pcap, ring, memif or ethdev (or make it "
        "a slot)");
    return kUsualFrame;
  }

 private:
  std::uint32_t af_packet(const mtlink::config::AfPacket& from, AfPacketDevice& out);
  std::uint32_t af_xdp(const mtlink::config::AfXdp& from, AfXdpDevice& out);
  std::uint32_t tap(const mtlink::config::Tap& from, TapDevice& out);
  std::uint32_t pcap(const mtlink::config::Pcap& from, PcapDevice& out);
  std::uint32_t ring(const mtlink::config::Ring& from, RingDevice& out);
  std::uint32_t memif(const mtlink::config::Memif& from, MemifDevice& out);
  std::uint32_t ethdev(const mtlink::config::Ethdev& from, EthdevDevice& out);

  bool good_interface(const std::string& name, const std::string& path);
  std::uint32_t interface_frame(const std::string& name, const std::string& path);
  std::uint32_t said_frame() const;
  bool has_typed_form(const std::string& devargs);
  void bonding(const std::string& devargs);

  const DeviceSource& source_;
  Problems& problems_;
};

bool DevicePlanner::good_interface(const std::string& name, const std::string& path) {
  if (name.empty()) {
    problems_.add(path, "is missing; name a Linux interface (`ip link` lists them)");
    return false;
  }
  if (name.find_first_of("/ \t\n,") != std::string::npos || name.size() > kMaxInterfaceName) {
    problems_.add(path, "is " + in_quotes(name) +
                            ", which no interface can be called (at most 15 "
                            "characters, no '/', ',' or space)");
    return false;
  }
  return true;
}

/// Longest frame of an interface that must be there.
std::uint32_t DevicePlanner::interface_frame(const std::string& name, const std::string& path) {
  if (!good_interface(name, path) || !source_.host.longest_frame) return kUsualFrame;
  const auto frame = source_.host.longest_frame(name);
  if (!frame) {
    problems_.add(path, "cannot be used: " + frame.error().message);
    return kUsualFrame;
  }
  const auto least = static_cast<std::uint32_t>(link::kFrameHeader + link::kMinMtu);
  if (*frame < least) {
    problems_.add(path, "is " + in_quotes(name) + ", whose frames of " + std::to_string(*frame) +
                            " bytes are too short for a link; "
                            "raise its MTU to 80 or more");
    return kUsualFrame;
  }
  return *frame;
}

/// What a device carries is not known before it is opened; the operator may know.
std::uint32_t DevicePlanner::said_frame() const {
  const auto& said = source_.port.link().has_mtu() ? source_.port.link() : source_.defaults;
  return std::max(kUsualFrame, said.mtu() + static_cast<std::uint32_t>(link::kFrameHeader));
}

std::uint32_t DevicePlanner::af_packet(const mtlink::config::AfPacket& from, AfPacketDevice& out) {
  const std::string path = source_.path + ".af_packet";
  out.interface = from.interface();
  if (from.has_frames() && problems_.range(path + ".frames", from.frames(), 16, 65536)) {
    out.frames = from.frames();
  }
  return interface_frame(out.interface, path + ".interface");
}

std::uint32_t DevicePlanner::af_xdp(const mtlink::config::AfXdp& from, AfXdpDevice& out) {
  const std::string path = source_.path + ".af_xdp";
  out.interface = from.interface();
  if (from.has_frames() && problems_.range(path + ".frames", from.frames(), 64, 16384)) {
    out.frames = from.frames();
    if (!std::has_single_bit(out.frames)) {
      problems_.add(path + ".frames", "is " + std::to_string(out.frames) +
                                          ", not a power of two; take " +
                                          std::to_string(std::bit_ceil(out.frames)));
    }
  }
  const std::uint32_t most =
      phy::kAfXdpMaxFrame -
      (source_.port.has_vlan() ? static_cast<std::uint32_t>(link::kVlanTag) : 0);
  return std::min(interface_frame(out.interface, path + ".interface"), most);
}

std::uint32_t DevicePlanner::tap(const mtlink::config::Tap& from, TapDevice& out) {
  out.interface = from.interface();
  if (!good_interface(out.interface, source_.path + ".tap.interface")) return kUsualFrame;
  // One that is there already has its MTU; a new one gets that of the link.
  if (source_.host.longest_frame) {
    if (const auto frame = source_.host.longest_frame(out.interface)) return *frame;
  }
  return said_frame();
}

std::uint32_t DevicePlanner::pcap(const mtlink::config::Pcap& from, PcapDevice& out) {
  const std::string path = source_.path + ".pcap";
  out = {from.interface(), from.receive_file(), from.send_file(), from.overwrite()};
  const bool files = !out.receive_file.empty() || !out.send_file.empty();
  if (files == !out.interface.empty()) {
    problems_.add(path, files ? "has an interface and files; give one or the other"
                              : "has no interface and no files; give an interface, or receive_file "
                                "or send_file or both");
    return kUsualFrame;
  }
  for (const auto& [name, file] :
       {std::pair{"receive_file", &out.receive_file}, std::pair{"send_file", &out.send_file}}) {
    if (file->find_first_of(",=") == std::string::npos) continue;
    problems_.add(path + "." + name,
                  "is " + in_quotes(*file) + "; DPDK takes no path with ',' or '='");
  }
  if (files && out.receive_file == out.send_file) {
    problems_.add(path + ".send_file", "is the file that frames are read from; name another one");
  }
  return files ? said_frame() : interface_frame(out.interface, path + ".interface");
}

std::uint32_t DevicePlanner::ring(const mtlink::config::Ring& from, RingDevice& out) {
  const std::string path = source_.path + ".ring.name";
  out.name = from.name();
  if (!good_name(out.name) || out.name.size() > kMaxRingName) {
    problems_.add(path, "is " + in_quotes(out.name) +
                            "; a ring's name has 1 to 16 letters, digits, '.', '_' or '-'");
  }
  return kMaxMtu + static_cast<std::uint32_t>(link::kFrameHeader);
}

std::uint32_t DevicePlanner::memif(const mtlink::config::Memif& from, MemifDevice& out) {
  const std::string path = source_.path + ".memif";
  out.socket = from.socket();
  out.client = from.role() == mtlink::config::Memif::CLIENT;
  out.id = from.id();
  out.secret = from.secret();
  if (out.socket.empty() || out.socket == "@") {
    problems_.add(path + ".socket",
                  "is missing; give a path, as \"/run/mtlink/memif.sock\", or \"@name\"");
  } else if (out.socket.size() > kMaxSocketName || out.socket.find('\0') != std::string::npos) {
    problems_.add(path + ".socket", "cannot be a socket's name; it has at most " +
                                        std::to_string(kMaxSocketName) + " bytes, none of them 0");
  }
  if (out.secret.size() > kMaxSecret) {
    problems_.add(path + ".secret", "has " + std::to_string(out.secret.size()) +
                                        " bytes; memif carries at most " +
                                        std::to_string(kMaxSecret));
  }
  return kMaxMtu + static_cast<std::uint32_t>(link::kFrameHeader);
}

std::uint32_t DevicePlanner::ethdev(const mtlink::config::Ethdev& from, EthdevDevice& out) {
  out.devargs = from.devargs();
  const std::string path = source_.path + ".ethdev.devargs";
  if (out.devargs.empty()) {
    problems_.add(path, "is missing; name a device, as \"0000:03:00.0\"");
  } else if (!has_typed_form(out.devargs)) {
    bonding(out.devargs);
  }
  return said_frame();
}

/// A second way to the same kind of device would miss what the first one knows of it.
bool DevicePlanner::has_typed_form(const std::string& devargs) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTyped{{
      {"net_af_packet", "af_packet { interface: ... }"},
      {"net_af_xdp", "af_xdp { interface: ... }"},
      {"net_tap", "tap { interface: ... }"},
      {"net_pcap", "pcap { ... }"},
      {"net_ring", "ring { name: ... }"},
      {"net_memif", "memif { socket: ... }"},
  }};
  for (const auto& [driver, form] : kTyped) {
    if (!devargs.starts_with(driver)) continue;
    problems_.add(source_.path + ".ethdev.devargs", "is a device of " + std::string(driver) +
                                                        ", which has a form of its own; write " +
                                                        std::string(form) + " instead");
    return true;
  }
  return false;
}

/// Frames of a link stay in order (P3): of the modes only those that choose the member by
/// addresses, or have one at a time.
void DevicePlanner::bonding(const std::string& devargs) {
  if (!devargs.starts_with("net_bonding")) return;
  const std::size_t at = devargs.find(",mode=");
  const std::string mode =
      at == std::string::npos ? "0" : devargs.substr(at + 6, devargs.find(',', at + 6) - at - 6);
  if (mode == "1" || mode == "2" || mode == "4") return;
  problems_.add(source_.path + ".ethdev.devargs",
                "bonds in mode " + mode +
                    ", which sends the frames of one link over several members and so out of order "
                    "(P3); use mode=1, 2 or 4, or a link of its own over each member");
}

}  // namespace

std::uint32_t plan_device(const DeviceSource& source, Problems& problems, Device& out) {
  return DevicePlanner(source, problems).plan(out);
}

void plan_memif_sizes(const mtlink::config::Memif& from, const std::string& path, std::uint32_t mtu,
                      Problems& problems, MemifDevice& device) {
  if (!device.client) {
    for (const auto& [given, field] : {std::pair{from.has_ring_size(), ".ring_size"},
                                       std::pair{from.has_buffer_size(), ".buffer_size"}}) {
      if (!given) continue;
      problems.add(path + field,
                   "has no meaning for a SERVER, whose client makes the memory; leave it out");
    }
    if (from.has_max_region_mib() &&
        problems.range(path + ".max_region_mib", from.max_region_mib(), 1, kMaxMemifRegionMib)) {
      device.max_region_mib = from.max_region_mib();
    }
    return;
  }
  if (from.has_max_region_mib()) {
    problems.add(path + ".max_region_mib",
                 "has no meaning for a CLIENT, whose memory is its own; leave it out");
  }
  const auto round_up = [](std::uint32_t bytes) { return (bytes + 63) / 64 * 64; };
  const std::uint32_t frame = mtu + static_cast<std::uint32_t>(link::kFrameHeader);
  device.buffer_size = round_up(frame);
  if (from.has_buffer_size()) {
    if (!problems.range(path + ".buffer_size", from.buffer_size(), kMinMemifBuffer,
                        kMaxMemifBuffer)) {
      return;
    }
    device.buffer_size = round_up(from.buffer_size());
  }
  if (from.has_ring_size()) {
    if (!problems.range(path + ".ring_size", from.ring_size(), kMinMemifRing, kMaxMemifRing)) {
      return;
    }
    if (!std::has_single_bit(from.ring_size())) {
      problems.add(path + ".ring_size", "is " + std::to_string(from.ring_size()) +
                                            ", not a power of two; take " +
                                            std::to_string(std::bit_ceil(from.ring_size())));
      return;
    }
    device.ring_size = from.ring_size();
  }
  if ((frame + device.buffer_size - 1) / device.buffer_size > device.ring_size) {
    problems.add(path + ".buffer_size", "is " + std::to_string(device.buffer_size) +
                                            ": a ring of " + std::to_string(device.ring_size) +
                                            " holds no longest frame of " + std::to_string(frame) +
                                            " bytes; make it larger, or lower mtu");
  }
  if (device.memory() > kMaxMemifMemory) {
    problems.add(path, "takes " + std::to_string(device.memory()) +
                           " bytes of shared memory; lower ring_size or buffer_size to less than " +
                           std::to_string(kMaxMemifMemory));
  }
}

const char* kind_of(const Device& device) {
  static constexpr std::array<const char*, std::variant_size_v<Device>> kKinds{
      "none", "af_packet", "af_xdp", "tap", "pcap", "ring", "memif", "ethdev", "slot"};
  return kKinds[device.index()];
}

namespace {

/// The Linux interface that a device is on; empty if it is on none.
std::string interface_of(const Device& device) {
  if (const auto* d = std::get_if<AfPacketDevice>(&device)) return d->interface;
  if (const auto* d = std::get_if<AfXdpDevice>(&device)) return d->interface;
  if (const auto* d = std::get_if<TapDevice>(&device)) return d->interface;
  if (const auto* d = std::get_if<PcapDevice>(&device)) return d->interface;
  return {};
}

}  // namespace

std::string carrier_of(const Device& device) {
  const std::string interface = interface_of(device);
  if (interface.empty()) return "the device";
  const bool xdp = std::holds_alternative<AfXdpDevice>(device);
  return "interface " + interface + (xdp ? " by AF_XDP" : "");
}

std::string shared_name(const Device& device) {
  if (const std::string interface = interface_of(device); !interface.empty()) {
    return "interface " + interface;
  }
  if (const auto* d = std::get_if<PcapDevice>(&device)) {
    const std::string& file = d->send_file.empty() ? d->receive_file : d->send_file;
    return file.empty() ? "" : "file " + file;
  }
  const auto* ethdev = std::get_if<EthdevDevice>(&device);
  return ethdev == nullptr || ethdev->devargs.empty() ? "" : "device " + ethdev->devargs;
}

std::uint32_t rings(const Device& device) {
  if (const auto* d = std::get_if<AfPacketDevice>(&device)) return d->frames;
  if (const auto* d = std::get_if<AfXdpDevice>(&device)) return d->frames;
  return 0;
}

bool needs_mac(const Device& device) {
  return std::holds_alternative<TapDevice>(device) || std::holds_alternative<PcapDevice>(device) ||
         std::holds_alternative<RingDevice>(device) || std::holds_alternative<MemifDevice>(device);
}

std::string text(const Device& device) {
  const std::string kind = std::string(kind_of(device)) + " ";
  if (const auto* d = std::get_if<RingDevice>(&device)) return kind + d->name;
  if (const auto* d = std::get_if<EthdevDevice>(&device)) return kind + d->devargs;
  if (const auto* d = std::get_if<MemifDevice>(&device)) {
    return kind + (d->client ? "client of " : "server at ") + d->socket + " id " +
           std::to_string(d->id);
  }
  if (const auto* d = std::get_if<SlotDevice>(&device)) {
    return kind + "for node " + std::to_string(d->node.value());
  }
  const std::string interface = interface_of(device);
  if (!interface.empty()) return kind + interface;
  const auto& files = std::get<PcapDevice>(device);
  return kind + (files.receive_file.empty() ? "" : "from " + files.receive_file) +
         (files.receive_file.empty() || files.send_file.empty() ? "" : " ") +
         (files.send_file.empty() ? "" : "to " + files.send_file);
}

}  // namespace mtl::switchd
