#include "phy/dpdk/ethdev_port.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/byte_order.h"

namespace mtl::phy {
namespace {

constexpr unsigned kPrefetch = 4;

/// Drivers whose frames a CPU copies, so that any memory will do. What is on other devices, as
/// bonding is, may be on a NIC.
bool copied_by_cpu(std::string_view driver) {
  constexpr std::array kDrivers{"net_af_packet", "net_pcap", "net_null", "net_ring"};
  return std::find(kDrivers.begin(), kDrivers.end(), driver) != kDrivers.end();
}

/// Whether a device that reads or writes memory by itself can reach the pool's.
bool reachable(const rte_mempool& pool) {
  return (pool.flags & RTE_MEMPOOL_F_NON_IO) == 0;
}

/// Bytes of 802.1Q tag in a frame that is to be sent.
std::uint32_t tag_length(const rte_mbuf& frame) {
  const bool tagged = load16(rte_pktmbuf_mtod_offset(&frame, const std::byte*, 12)) == 0x8100;
  return tagged ? static_cast<std::uint32_t>(link::kVlanTag) : 0;
}

Error no_such_device(const std::string& devargs, const std::string& why) {
  return Error{"device " + devargs + " cannot be opened: " + why +
               "; check the driver's name and its arguments, and that no other process uses it"};
}

}  // namespace

Result<std::uint16_t> attach(const std::string& devargs) {
  const int rc = rte_dev_probe(devargs.c_str());
  if (rc < 0) return no_such_device(devargs, rte_strerror(-rc));
  rte_dev_iterator iterator;
  std::uint16_t id = 0;
  std::uint16_t found = RTE_MAX_ETHPORTS;
  RTE_ETH_FOREACH_MATCHING_DEV(id, devargs.c_str(), &iterator) {
    if (found == RTE_MAX_ETHPORTS) found = id;
  }
  if (found == RTE_MAX_ETHPORTS) return no_such_device(devargs, "its driver did not take it");
  return found;
}

Result<std::unique_ptr<EthdevPort>> open_ethdev(const std::string& devargs, MbufPool& pool,
                                                EthdevOptions options) {
  const auto id = attach(devargs);
  if (!id) return id.error();
  if (options.device.empty()) options.device = devargs;
  return EthdevPort::open(*id, pool, options);
}

Result<std::unique_ptr<EthdevPort>> EthdevPort::open(std::uint16_t id, MbufPool& pool,
                                                     const EthdevOptions& options) {
  std::unique_ptr<EthdevPort> port(new EthdevPort(id, pool, options));
  if (auto started = port->start(); !started) return started.error();
  return port;
}

EthdevPort::EthdevPort(std::uint16_t id, MbufPool& pool, const EthdevOptions& options)
    : options_(options), id_(id), pool_(pool) {}

EthdevPort::~EthdevPort() {
  discard_gathered();
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(id_, &info) == 0;
  rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
  if (options_.remove && known && info.device != nullptr) rte_dev_remove(info.device);
}

Error EthdevPort::error(const std::string& what, int rc) const {
  return Error{"device " + options_.device + ": " + what + " (" + rte_strerror(-rc) + ")"};
}

Result<void> EthdevPort::start() {
  rte_eth_dev_info info{};
  if (const int rc = rte_eth_dev_info_get(id_, &info); rc < 0)
    return error("it tells nothing of itself; is it a DPDK Ethernet device?", rc);
  traits_.driver = info.driver_name;
  traits_.device = options_.device;
  traits_.lossy = options_.lossy;
  traits_.knows_carrier = true;
  hands_over_ = traits_.driver == "net_ring";
  by_itself_ = !copied_by_cpu(traits_.driver);
  if (auto checked = check_memory(); !checked) return checked;
  if (auto checked = check_frame_length(); !checked) return checked;
  if (auto made = set_up_queues(); !made) return made;
  if (const int rc = rte_eth_dev_start(id_); rc < 0)
    return error("it does not start; is it in use elsewhere?", rc);
  // Refused by devices that hear everything anyway.
  if (options_.all_multicast) rte_eth_allmulticast_enable(id_);
  rte_ether_addr address{};
  rte_eth_macaddr_get(id_, &address);
  std::memcpy(mac_.data(), address.addr_bytes, mac_.size());
  set_frame_limit(traits_.max_frame);
  if (options_.driver_knows_carrier) sample();
  return {};
}

Result<void> EthdevPort::check_memory() {
  if (!by_itself_ || reachable(*pool_.mempool())) return {};
  return Error{"device " + options_.device +
               ": it cannot reach the buffers of a port that is added without huge pages: set "
               "runtime.huge_pages, or configure it at the start, and restart"};
}

Result<void> EthdevPort::check_frame_length() {
  std::uint16_t mtu = 0;
  rte_eth_dev_get_mtu(id_, &mtu);
  const std::uint32_t carried = std::uint32_t{mtu} + RTE_ETHER_HDR_LEN;
  // A frame that is copied to be sent may carry a tag.
  const std::uint32_t held = pool_.room() - static_cast<std::uint32_t>(link::kVlanTag);
  traits_.max_frame = options_.max_frame != 0 ? options_.max_frame : std::min(carried, held);
  if (traits_.max_frame <= held) return {};
  return Error{"device " + options_.device + ": frames of " + std::to_string(traits_.max_frame) +
               " bytes, and a tag of 4, do not fit the pool's buffers of " +
               std::to_string(pool_.room()) + ": make those larger, or the link's mtu smaller"};
}

Result<void> EthdevPort::set_up_queues() {
  rte_eth_dev_info info{};
  rte_eth_dev_info_get(id_, &info);
  rte_eth_conf conf{};
  // Frames longer than one of the device's buffers are taken in pieces rather than lost.
  conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
  if (const int rc = rte_eth_dev_configure(id_, 1, 1, &conf); rc < 0)
    return error("it refuses one queue each way", rc);
  std::uint16_t in = options_.descriptors;
  std::uint16_t out = options_.descriptors;
  if (const int rc = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &in, &out); rc < 0)
    return error("it refuses " + std::to_string(options_.descriptors) + " descriptors", rc);
  const auto socket = static_cast<unsigned>(rte_eth_dev_socket_id(id_));
  rte_eth_rxconf rx = info.default_rxconf;
  rx.offloads = conf.rxmode.offloads;
  if (const int rc = rte_eth_rx_queue_setup(id_, 0, in, socket, &rx, pool_.mempool()); rc < 0)
    return error("no receive queue with buffers of " + std::to_string(pool_.room()) +
                     " bytes; make them larger if it says no memory",
                 rc);
  rte_eth_txconf tx = info.default_txconf;
  // Never the fast free: it takes the references away that a link keeps for replay.
  tx.offloads = 0;
  if (const int rc = rte_eth_tx_queue_setup(id_, 0, out, socket, &tx); rc < 0)
    return error("no transmit queue", rc);
  return {};
}

unsigned EthdevPort::receive(std::span<Buffer*> out) {
  std::array<rte_mbuf*, kGather> burst;
  const auto want = static_cast<std::uint16_t>(std::min<std::size_t>(out.size(), burst.size()));
  const unsigned got = rte_eth_rx_burst(id_, 0, burst.data(), want);
  if (got == 0) return 0;
  for (unsigned i = 0; i < std::min(got, kPrefetch); ++i)
    rte_prefetch0(rte_pktmbuf_mtod(burst[i], void*));
  unsigned taken = 0;
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < got; ++i) {
    if (i + kPrefetch < got) rte_prefetch0(rte_pktmbuf_mtod(burst[i + kPrefetch], void*));
    Buffer* buffer = admit(burst[i]);
    if (buffer == nullptr) continue;
    bytes += buffer->length;
    out[taken++] = buffer;
  }
  counters_.frames_in.add(taken);
  counters_.bytes_in.add(bytes);
  return taken;
}

Buffer* EthdevPort::admit(rte_mbuf* mbuf) {
  // A device that passes memory on (net_ring) may deliver mbufs of a pool that is not ours to know.
  if (mbuf->nb_segs == 1 && mbuf->pool == pool_.mempool()) [[likely]]
    return pool_.adopt(mbuf);
  Buffer* buffer = join(mbuf);
  rte_pktmbuf_free(mbuf);
  return buffer;
}

Buffer* EthdevPort::join(rte_mbuf* mbuf) {
  Buffer* buffer = pool_.take();
  if (buffer == nullptr) {
    counters_.drops.add(Drop::kNoBuffer);
    return nullptr;
  }
  // By the pieces' own lengths, not by the total that the driver tells.
  for (const rte_mbuf* piece = mbuf; piece != nullptr; piece = piece->next) {
    if (piece->data_len > buffer->tailroom) {
      counters_.drops.add(Drop::kTooLong);
      pool_.give(buffer);
      return nullptr;
    }
    std::memcpy(buffer->data + buffer->length, rte_pktmbuf_mtod(piece, const void*),
                piece->data_len);
    buffer->length += piece->data_len;
    buffer->tailroom -= piece->data_len;
  }
  return buffer;
}

bool EthdevPort::send(const link::FrameOut& frame) {
  if (frame.length() - frame.tag_length > frame_limit()) {
    counters_.drops.add(Drop::kTooLong);
    return false;
  }
  if (gathered_ == kGather) push();
  if (gathered_ == kGather) {
    counters_.send_full.add();
    return false;
  }
  rte_mbuf* mbuf = may_reference(frame) ? reference(frame) : copy(frame);
  if (mbuf == nullptr) {
    counters_.drops.add(Drop::kNoBuffer);
    return false;
  }
  gather_[gathered_++] = mbuf;
  if (gathered_ == kGather) push();
  return true;
}

bool EthdevPort::may_reference(const link::FrameOut& frame) const {
  const Buffer* packet = frame.packet;
  if (packet == nullptr || hands_over_) return false;
  if (packet->pool != &pool_) {
    if (!MbufPool::holds(*packet)) return false;
    if (by_itself_ && !reachable(*MbufPool::mbuf(*packet)->pool)) return false;
  }
  const std::uint32_t padding = frame.length() - frame.head_length - packet->length;
  return packet->headroom >= frame.head_length && packet->tailroom >= padding &&
         rte_mbuf_refcnt_read(MbufPool::mbuf(*packet)) == 1;
}

rte_mbuf* EthdevPort::reference(const link::FrameOut& frame) {
  Buffer& packet = *frame.packet;
  const std::uint32_t length = frame.length();
  std::byte* start = packet.data - frame.head_length;
  std::memcpy(start, frame.head.data(), frame.head_length);
  std::memset(packet.data + packet.length, 0, length - frame.head_length - packet.length);
  rte_mbuf* mbuf = MbufPool::mbuf(packet);
  // The mbuf describes the frame; the Buffer goes on describing the packet, for the link.
  mbuf->data_off = static_cast<std::uint16_t>(start - static_cast<std::byte*>(mbuf->buf_addr));
  mbuf->data_len = static_cast<std::uint16_t>(length);
  mbuf->pkt_len = length;
  // What the device that received it noted must not be read as an order by the one that sends it.
  mbuf->ol_flags &= RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT;
  mbuf->tx_offload = 0;
  rte_mbuf_refcnt_update(mbuf, 1);
  return mbuf;
}

rte_mbuf* EthdevPort::copy(const link::FrameOut& frame) {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_.mempool());
  if (mbuf == nullptr) return nullptr;
  // Fits: the limit is at most the pool's room.
  mbuf->data_len = static_cast<std::uint16_t>(frame.write(rte_pktmbuf_mtod(mbuf, std::byte*)));
  mbuf->pkt_len = mbuf->data_len;
  return mbuf;
}

void EthdevPort::flush() {
  if (gathered_ == 0) return;
  if (carrier()) {
    push();
    return;
  }
  for (unsigned i = 0; i < gathered_; ++i) counters_.drops.add(Drop::kNotSent);
  discard_gathered();
}

void EthdevPort::push() {
  std::array<std::uint32_t, kGather> length;  // the driver may free a frame that it took
  for (unsigned i = 0; i < gathered_; ++i) length[i] = gather_[i]->pkt_len;
  const unsigned sent =
      rte_eth_tx_burst(id_, 0, gather_.data(), static_cast<std::uint16_t>(gathered_));
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < sent; ++i) bytes += length[i];
  counters_.frames_out.add(sent);
  counters_.bytes_out.add(bytes);
  if (sent < gathered_) counters_.send_full.add();
  unsigned kept = 0;
  for (unsigned i = sent; i < gathered_; ++i) {
    // A medium that shrank under what is gathered would refuse it for ever, and all behind it.
    if (length[i] > frame_limit() && length[i] - tag_length(*gather_[i]) > frame_limit()) {
      counters_.drops.add(Drop::kTooLong);
      rte_pktmbuf_free(gather_[i]);
    } else {
      gather_[kept++] = gather_[i];
    }
  }
  gathered_ = kept;
}

void EthdevPort::discard_gathered() {
  for (unsigned i = 0; i < gathered_; ++i) rte_pktmbuf_free(gather_[i]);
  gathered_ = 0;
}

void EthdevPort::follow(std::uint64_t now, std::uint64_t& last, Drop reason, DropCounters& drops) {
  // A driver may begin again at 0 (net_memif does when its peer leaves).
  drops.add(reason, now >= last ? now - last : now);
  last = now;
}

std::string EthdevPort::fault() const {
  if (!removed_) return {};
  return "device " + options_.device + " was removed: plug it in again, or give it back to DPDK";
}

void EthdevPort::sample() {
  if (!removed_ && rte_eth_dev_is_removed(id_) == 1) {
    removed_ = true;
    set_carrier(false);
  }
  if (removed_) return;
  if (options_.driver_knows_carrier) {
    rte_eth_link link{};
    if (rte_eth_link_get_nowait(id_, &link) == 0) set_carrier(link.link_status == RTE_ETH_LINK_UP);
  }
  rte_eth_stats stats{};
  if (rte_eth_stats_get(id_, &stats) != 0) return;
  follow(stats.oerrors, last_errors_out_, Drop::kNotSent, device_.drops);
  follow(stats.imissed + stats.ierrors, last_errors_in_, Drop::kNotReceived, device_.drops);
  device_.no_mbuf.add(stats.rx_nombuf >= last_no_mbuf_ ? stats.rx_nombuf - last_no_mbuf_
                                                       : stats.rx_nombuf);
  last_no_mbuf_ = stats.rx_nombuf;
}

}  // namespace mtl::phy
