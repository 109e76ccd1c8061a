#include "tools/mtperf/open_endpoint.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/ids.h"
#include "link/config.h"
#include "phy/dpdk/af_packet.h"
#include "phy/dpdk/eal.h"
#include "phy/dpdk/mbuf_pool.h"

namespace mtl::mtperf {
namespace {

/// Receive bursts, the driver's rings and control frames.
constexpr std::uint32_t kReserve = 1024;
constexpr std::uint64_t kMiB = 1u << 20;
constexpr std::uint64_t kEalMiB = 32;  ///< what EAL and the driver need beside the pool
constexpr std::uint16_t kLongestMtu = 9000;
constexpr std::uint16_t kCell = 256;

/// An AF_PACKET port that follows its interface itself: an endpoint has no control thread.
class OwnDevice final : public phy::Port {
 public:
  static Result<std::unique_ptr<OwnDevice>> open(const phy::AfPacketPlan& plan,
                                                 phy::MbufPool& pool) {
    auto port = phy::AfPacketPort::open(plan, pool);
    if (!port) return port.error();
    std::unique_ptr<OwnDevice> device(new OwnDevice(std::move(*port)));
    auto monitor =
        phy::CarrierMonitor::open([raw = device->port_.get()](const phy::InterfaceState& state) {
          raw->follow_interface(state);
        });
    if (!monitor) return monitor.error();
    device->monitor_ = std::move(*monitor);
    device->monitor_->watch(plan.interface.name);
    return device;
  }

  unsigned receive(std::span<Buffer*> out) override { return port_->receive(out); }
  unsigned room() override { return port_->room(); }
  bool send(const link::FrameOut& frame) override { return port_->send(frame); }
  void flush() override { port_->flush(); }
  bool carrier() override {
    if (asked_++ % kPasses == 0) (void)monitor_->process();
    return port_->carrier();
  }
  bool arm() override { return port_->arm(); }
  void disarm() override { port_->disarm(); }
  const Mac& mac() const { return port_->mac(); }

 private:
  static constexpr unsigned kPasses = 64;  ///< between two looks at the kernel's news
  explicit OwnDevice(std::unique_ptr<phy::AfPacketPort> port) : port_(std::move(port)) {
    traits_ = port_->traits();
  }

  std::unique_ptr<phy::AfPacketPort> port_;
  std::unique_ptr<phy::CarrierMonitor> monitor_;
  unsigned asked_ = 0;
};

/// What the endpoint tells in INIT: four longest packets for each VC, at least 64 cells.
link::Config link_for(NodeId node, std::uint32_t max_frame) {
  link::Config c;
  c.node = node;
  c.port = PortId{0};
  c.mtu = static_cast<std::uint16_t>(
      std::min<std::size_t>(max_frame - link::kFrameHeader, kLongestMtu));
  c.cell = kCell;
  c.window = 256;
  c.capacity.fill(std::max<std::uint16_t>(
      64, static_cast<std::uint16_t>(4 * link::CellSize{kCell}.cells(c.mtu))));
  c.timers = link::lab_timers();
  return c;
}

Result<OpenedEndpoint> open_interface(const EndpointChoice& choice) {
  if (!choice.node) return Error{"--interface needs --node: the node id of this endpoint"};
  const auto plan =
      phy::plan_af_packet({.interface = choice.interface, .ether_type = link::kDefaultEtherType});
  if (!plan) return plan.error();
  endpoint::Settings settings;
  settings.link = link_for(NodeId{*choice.node}, plan->max_frame);
  settings.link.mac = plan->interface.mac;
  const auto& capacity = settings.link.capacity;
  const phy::MbufPoolConfig pool_config{
      .count = std::accumulate(capacity.begin(), capacity.end(), 0U) + settings.own_limit +
               settings.link.send_window + kReserve,
      .room = plan->rings.pool_room()};
  phy::EalConfig environment;
  environment.memory_mib =
      static_cast<std::uint32_t>(phy::MbufPool::memory(pool_config) / kMiB + kEalMiB);
  auto eal = phy::Eal::start(environment);
  if (!eal) return eal.error();
  auto pool = phy::MbufPool::create(pool_config);
  if (!pool) return pool.error();
  auto device = OwnDevice::open(*plan, **pool);
  if (!device) return device.error();
  auto opened = endpoint::Endpoint::open(settings, std::move(*pool), std::move(*device));
  if (!opened) return opened.error();
  return OpenedEndpoint{std::shared_ptr<phy::Eal>(std::move(*eal)), std::move(*opened)};
}

}  // namespace

Result<OpenedEndpoint> open_endpoint(const EndpointChoice& choice) {
  if (!choice.interface.empty()) return open_interface(choice);
  if (choice.slot.control_socket.empty()) {
    return Error{
        "which endpoint? give --socket (or MTLINK_SOCKET) of the local mtswitchd, or "
        "--interface and --node"};
  }
  endpoint::SlotChoice slot = choice.slot;
  if (choice.node) slot.node = NodeId{*choice.node};
  auto opened = endpoint::Endpoint::claim(slot);
  if (!opened) return opened.error();
  return OpenedEndpoint{nullptr, std::move(*opened)};
}

}  // namespace mtl::mtperf
