#include "switch/media/pcap_media.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <variant>

#include "link/codec.h"
#include "phy/dpdk/interface.h"

namespace mtl::switchd {

PcapMedia::PcapMedia(const Plan& plan, PortId first) {
  const PortPlan& port = plan.ports[first.value()];
  device_ = std::get<PcapDevice>(port.device);
  options_.device = device_.interface;
  if (device_.interface.empty()) {
    options_.device = device_.send_file.empty() ? device_.receive_file : device_.send_file;
  }
  options_.max_frame = longest_frame_on_device(plan, first);
  options_.driver_knows_carrier = false;
  options_.all_multicast = false;
  mac_ = *port.mac;  // it has one: needs_mac()
}

Result<void> PcapMedia::check() {
  if (!device_.interface.empty()) {
    const auto usable = phy::usable_interface(device_.interface, options_.max_frame);
    if (!usable) return usable.error();
    index_ = usable->index;
    if (const auto probe = phy::packet_socket(device_.interface); !probe) return probe.error();
    return {};
  }
  if (!device_.receive_file.empty()) {
    if (auto good = phy::readable_capture(device_.receive_file); !good) return good;
  }
  if (device_.send_file.empty()) return {};
  return phy::writable_capture(device_.send_file, device_.overwrite);
}

std::string PcapMedia::devargs() const {
  static std::atomic<unsigned> serial{0};
  std::string out = "net_pcap" + std::to_string(serial++);
  if (!device_.interface.empty()) {
    // Not `iface`, which takes what is sent for received.
    return out + ",rx_iface_in=" + device_.interface + ",tx_iface=" + device_.interface;
  }
  if (!device_.receive_file.empty()) out += ",rx_pcap=" + device_.receive_file;
  if (!device_.send_file.empty()) out += ",tx_pcap=" + device_.send_file;
  return out;
}

Result<void> PcapMedia::open(phy::MbufPool& pool) {
  // net_pcap follows links and truncates whatever it finds: it finds a file of ours, or one that
  // may be overwritten.
  if (!device_.send_file.empty()) {
    auto made = phy::make_capture(device_.send_file);
    if (!made && !device_.overwrite) return made.error();
    if (made) made_ = std::move(*made);
  }
  auto port = phy::open_ethdev(devargs(), pool, options_);
  if (!port) {
    undo();
    return port.error();
  }
  port_ = std::move(*port);
  gone_ = false;
  if (device_.interface.empty()) return {};
  const auto now = phy::query_interface(device_.interface);
  if (now) follow(*now);
  return {};
}

void PcapMedia::undo() {
  if (made_) phy::remove_capture(*made_);
  made_.reset();
}

DropReading PcapMedia::drops() const {
  return port_ == nullptr ? DropReading{} : read(port_->device_counters().drops);
}

std::string PcapMedia::fault() const {
  if (port_ == nullptr) return {};
  const std::string& name = device_.interface;
  if (gone_) return "interface " + name + " is gone (deleted, renamed or moved): create it again";
  const std::uint32_t most = port_->traits().max_frame;
  if (port_->frame_limit() >= most) return {};
  return "the MTU of interface " + name + " shrank to " +
         std::to_string(port_->frame_limit() - link::kEthernetHeader) +
         ", so that longer frames are refused: `ip link set " + name + " mtu " +
         std::to_string(most - link::kEthernetHeader) + "`";
}

bool PcapMedia::wants_reopening() const {
  return !device_.interface.empty() && there_ && (port_ == nullptr || gone_);
}

void PcapMedia::follow(const phy::InterfaceState& state) {
  there_ = state.exists && state.admin_up;
  if (!state.exists || state.index != index_) gone_ = true;
  if (port_ == nullptr) return;
  port_->set_carrier(!gone_ && state.carrier());
  if (gone_) return;
  // net_pcap stops for ever at a frame that the interface refuses.
  const auto carried = state.mtu + static_cast<std::uint32_t>(link::kEthernetHeader);
  port_->set_frame_limit(std::min(port_->traits().max_frame, carried));
}

void PcapMedia::sample() {
  if (port_ != nullptr) port_->sample();
}

}  // namespace mtl::switchd
