#include "phy/af_xdp/af_xdp_port.h"

#include <linux/ethtool.h>
#include <linux/if_xdp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "link/codec.h"
#include "phy/af_xdp/longest_frame.h"
#include "phy/dpdk/interface.h"

namespace mtl::phy {
namespace {

constexpr std::uint32_t kEthernet = link::kEthernetHeader;
constexpr std::uint32_t kTag = link::kVlanTag;
constexpr std::uint32_t kMinFrames = 64;
constexpr std::uint32_t kMaxFrames = 16384;
constexpr std::uint32_t kQueue = 0;
/// How long a queue that was in use may take to become free.
constexpr std::chrono::milliseconds kPause{5};
constexpr int kTurns = 60;

/// Receive queues of an interface; 1 where it has no say in that.
std::uint32_t receive_queues(const std::string& interface) {
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (!fd || ::ioctl(fd.get(), SIOCETHTOOL, &request) != 0) return 1;
  return std::max(channels.rx_count + channels.combined_count, 1U);
}

Error fault_of(const AfXdpConfig& config, const std::string& what) {
  return interface_error(config.interface, what);
}

Error too_many_queues(const AfXdpConfig& config, std::uint32_t queues) {
  return fault_of(config, "spreads what it receives over " + std::to_string(queues) +
                              " queues, and AF_XDP reads one: `ethtool -L " + config.interface +
                              " combined 1` (or `rx 1 tx 1`)");
}

Error vanished(const AfXdpPlan& plan) {
  return fault_of(plan.config, "went away while it was opened: create it again");
}

/// What the kernel refused when the socket was made or bound.
Error refused(const AfXdpPlan& plan, int error) {
  const std::uint64_t locked = std::uint64_t{2} * plan.config.frames * 4;
  switch (error) {
    case EBUSY:
      return fault_of(
          plan.config,
          "has an AF_XDP socket on queue 0 already: end the other program that uses it");
    case EPERM:
    case EACCES:
      return fault_of(plan.config,
                      std::string("cannot be opened: AF_XDP needs ") + kAfXdpCapabilities);
    case ENOBUFS:
    case ENOMEM:
      return fault_of(plan.config,
                      "cannot be opened: " + std::to_string(locked) +
                          " KiB for its frames may not be locked in memory: raise the limit "
                          "(ulimit -l, or LimitMEMLOCK= in its unit), give the capability "
                          "CAP_IPC_LOCK, or configure fewer frames");
    case ENODEV:
    case ENXIO:
      return vanished(plan);
    case EAFNOSUPPORT:
      return fault_of(plan.config, "cannot be opened: the kernel needs CONFIG_XDP_SOCKETS");
    default:
      return fault_of(plan.config, "gives no AF_XDP socket on queue 0 (" +
                                       std::string(std::strerror(error)) +
                                       "): see `dmesg`, or use af_packet");
  }
}

/// What the kernel said when the program was put on the interface.
Error not_attached(const AfXdpPlan& plan, int error) {
  const std::string& name = plan.interface.name;
  if (error == EBUSY || error == EEXIST)
    return fault_of(plan.config,
                    "has an XDP program already (`ip link show " + name +
                        "` names it): end the program that uses it, or, if that is gone, `ip link "
                        "set " +
                        name + " xdp off`");
  if (error == EPERM || error == EACCES)
    return fault_of(plan.config,
                    std::string("cannot be opened: AF_XDP needs ") + kAfXdpCapabilities);
  if (error == ENODEV || error == ENXIO) return vanished(plan);
  const std::string takes_none =
      "takes no XDP program (" + std::string(std::strerror(error)) + "): ";
  if (error != ERANGE && error != EINVAL && error != EOPNOTSUPP)
    return fault_of(plan.config, takes_none + "see `dmesg`, or use af_packet");
  return fault_of(plan.config,
                  takes_none + "its MTU of " + std::to_string(plan.interface.mtu) +
                      ", or that of a veth's other end, may be too large for its driver: `ip link "
                      "set " +
                      name + " mtu 3498` at both ends is what most take");
}

}  // namespace

std::uint32_t AfXdpPlan::pool_room() const {
  return max_frame + kTag;
}

Result<AfXdpPlan> plan_af_xdp(const AfXdpConfig& config) {
  if (config.frames < kMinFrames || config.frames > kMaxFrames ||
      !std::has_single_bit(config.frames))
    return fault_of(config, "cannot have rings of " + std::to_string(config.frames) +
                                " frames: a power of two from " + std::to_string(kMinFrames) +
                                " to " + std::to_string(kMaxFrames));
  const std::uint32_t most = kAfXdpMaxFrame - (config.tagged ? kTag : 0);
  if (config.max_frame > most)
    return fault_of(config, "carries frames of at most " + std::to_string(most) +
                                " bytes by AF_XDP, and the link's have " +
                                std::to_string(config.max_frame) + ": set its mtu to " +
                                std::to_string(most - link::kFrameHeader) + " or less");
  const auto state = usable_interface(config.interface, config.max_frame);
  if (!state) return state.error();
  if (const std::uint32_t queues = receive_queues(config.interface); queues > 1)
    return too_many_queues(config, queues);
  if (const auto probe = packet_socket(config.interface); !probe)
    return fault_of(config, std::string("cannot be opened: AF_XDP needs ") + kAfXdpCapabilities);
  if (const auto probe = XdpProgram::load(config.ether_type, config.macs); !probe)
    return fault_of(config, probe.error().message);
  AfXdpPlan plan;
  plan.config = config;
  plan.interface = *state;
  plan.max_frame =
      config.max_frame != 0 ? config.max_frame : std::min(state->mtu + kEthernet, most);
  return plan;
}

// --- opening and closing ---

Result<std::unique_ptr<AfXdpPort>> AfXdpPort::open(const AfXdpPlan& plan, BufferPool& pool) {
  if (pool.room() < plan.pool_room())
    return fault_of(plan.config, "needs buffers of " + std::to_string(plan.pool_room()) +
                                     " bytes and the pool's have " + std::to_string(pool.room()) +
                                     ": make them larger, or the link's mtu smaller");
  auto addresses = listen_to(plan.interface, plan.config.macs);
  if (!addresses) return addresses.error();
  std::unique_ptr<AfXdpPort> port(new AfXdpPort(plan, pool));
  port->addresses_ = std::move(*addresses);
  if (auto made = port->make_socket(); !made) return made.error();
  if (auto used = port->use_program(); !used) return used.error();
  // What changed since the plan was made; later changes come from the monitor.
  if (const auto now = query_interface(plan.interface.name)) port->follow_interface(*now);
  return port;
}

AfXdpPort::AfXdpPort(const AfXdpPlan& plan, BufferPool& pool) : plan_(plan), pool_(pool) {
  limit_ = plan.max_frame;
  traits_.driver = "af_xdp";
  traits_.device = plan.interface.name;
  traits_.max_frame = plan.max_frame;
  traits_.knows_carrier = true;
}

AfXdpPort::~AfXdpPort() {
  program_.reset();  // first: the host gets its frames back
  if (socket_ != nullptr) xsk_socket__delete(socket_);
  if (umem_ != nullptr) xsk_umem__delete(umem_);
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

Result<void> AfXdpPort::make_socket() {
  libbpf_set_print(nullptr);  // what it says on stderr, the errors here say
  const std::uint32_t frames = plan_.config.frames;
  size_ = std::size_t{2} * frames * kChunk;
  void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return refused(plan_, ENOMEM);
  memory_ = static_cast<std::byte*>(memory);
  if (const int error = share_memory(); error != 0) return refused(plan_, error);
  int error = bind_socket();
  // The kernel lets go of a queue a little after its socket was closed, this process's or
  // another's.
  for (int turns = 0; plan_.may_wait && error == EBUSY && turns < kTurns; ++turns) {
    std::this_thread::sleep_for(kPause);
    error = bind_socket();
  }
  if (error != 0) return refused(plan_, error);
  fd_ = xsk_socket__fd(socket_);
  traits_.wake_fd = fd_;
  emptied_.reserve(frames);
  for (std::uint32_t i = 0; i < frames; ++i) emptied_.push_back(std::uint64_t{i} * kChunk);
  refill();
  free_.reserve(frames);
  for (std::uint32_t i = frames; i < 2 * frames; ++i) free_.push_back(std::uint64_t{i} * kChunk);
  return {};
}

/// An errno; 0: the kernel shares the memory.
int AfXdpPort::share_memory() {
  const std::uint32_t frames = plan_.config.frames;
  xsk_umem_config shared{};
  // Twice as many places as chunks where the kernel takes: it shows that it has taken later than it
  // gives the chunks back.
  shared.fill_size = 2 * frames;
  shared.comp_size = frames;
  shared.frame_size = kChunk;
  return -xsk_umem__create(&umem_, memory_, size_, &fill_, &completion_, &shared);
}

/// An errno; 0: the socket has queue 0.
int AfXdpPort::bind_socket() {
  xsk_socket_config config{};
  config.rx_size = plan_.config.frames;
  config.tx_size = 2 * plan_.config.frames;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = XDP_USE_NEED_WAKEUP;  // without a copy where the NIC's driver can
  const int rc = xsk_socket__create(&socket_, plan_.interface.name.c_str(), kQueue, umem_, &rx_,
                                    &tx_, &config);
  if (rc != 0) socket_ = nullptr;
  return -rc;
}

Result<void> AfXdpPort::use_program() {
  std::vector<Mac> ours = plan_.config.macs;
  ours.push_back(plan_.interface.mac);
  auto program = XdpProgram::load(plan_.config.ether_type, ours);
  if (!program) return fault_of(plan_.config, program.error().message);
  if (const int rc = xsk_socket__update_xskmap(socket_, program->map()); rc != 0)
    return refused(plan_, -rc);
  if (const int error = program->attach(plan_.interface.index); error != 0)
    return not_attached(plan_, error);
  program_.emplace(std::move(*program));
  return {};
}

// --- receiving ---

unsigned AfXdpPort::receive(std::span<Buffer*> out) {
  std::uint32_t from = 0;
  const auto want = static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), kBurst));
  const std::uint32_t got = xsk_ring_cons__peek(&rx_, want, &from);
  if (got == 0) {
    refill();
    // A driver without copies that has run out of chunks waits to be told of new ones.
    if (xsk_ring_prod__needs_wakeup(&fill_))
      ::recvfrom(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
    return 0;
  }
  unsigned taken = 0;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < got; ++i) {
    const xdp_desc& frame = *xsk_ring_cons__rx_desc(&rx_, from + i);
    if (Buffer* buffer = take(frame)) {
      bytes += buffer->length;
      out[taken++] = buffer;
    }
    emptied_.push_back(frame.addr / kChunk * kChunk);
  }
  xsk_ring_cons__release(&rx_, got);
  refill();
  counters_.frames_in.add(taken);
  counters_.bytes_in.add(bytes);
  return taken;
}

/// Gives the kernel chunks to receive into, all or, if it does not show that it has room, none yet.
void AfXdpPort::refill() {
  const auto count = static_cast<std::uint32_t>(emptied_.size());
  std::uint32_t to = 0;
  if (count == 0 || xsk_ring_prod__reserve(&fill_, count, &to) != count) return;
  for (std::uint32_t i = 0; i < count; ++i) *xsk_ring_prod__fill_addr(&fill_, to + i) = emptied_[i];
  xsk_ring_prod__submit(&fill_, count);
  emptied_.clear();
}

Buffer* AfXdpPort::take(const xdp_desc& from) {
  Buffer* buffer = pool_.take();
  if (buffer == nullptr) {
    counters_.drops.add(Drop::kNoBuffer);
    return nullptr;
  }
  if (from.len > buffer->tailroom) {
    counters_.drops.add(Drop::kTooLong);
    pool_.give(buffer);
    return nullptr;
  }
  std::memcpy(buffer->data, at(from.addr), from.len);
  buffer->length = from.len;
  buffer->tailroom -= from.len;
  return buffer;
}

// --- sending ---

void AfXdpPort::reclaim() {
  std::uint32_t from = 0;
  const std::uint32_t got = xsk_ring_cons__peek(&completion_, plan_.config.frames, &from);
  for (std::uint32_t i = 0; i < got; ++i)
    free_.push_back(*xsk_ring_cons__comp_addr(&completion_, from + i));
  if (got > 0) xsk_ring_cons__release(&completion_, got);
}

unsigned AfXdpPort::room() {
  if (!carrier()) return 0;
  if (free_.size() < kBurst) reclaim();
  return static_cast<unsigned>(std::min<std::size_t>(kBurst - gathered_, free_.size()));
}

bool AfXdpPort::send(const link::FrameOut& frame) {
  if (frame.length() - frame.tag_length > limit_.load(std::memory_order_relaxed)) {
    counters_.drops.add(Drop::kTooLong);
    return false;
  }
  if (gathered_ == kBurst) push();
  if (free_.empty()) reclaim();
  if (gathered_ == kBurst || free_.empty()) {
    counters_.send_full.add();
    return false;
  }
  const std::uint64_t address = free_.back();
  free_.pop_back();
  gather_[gathered_++] = {address, frame.write(at(address))};
  return true;
}

void AfXdpPort::flush() {
  if (carrier()) {
    if (gathered_ > 0) push();
    kick();
    return;
  }
  for (unsigned i = 0; i < gathered_; ++i) {
    counters_.drops.add(Drop::kNotSent);
    free_.push_back(gather_[i].address);
  }
  gathered_ = 0;
}

void AfXdpPort::push() {
  std::uint32_t to = 0;
  // Kernels until 2025 may give chunks back before they show that they took them: it waits here.
  if (xsk_ring_prod__reserve(&tx_, gathered_, &to) != gathered_) return kick();
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < gathered_; ++i) {
    xdp_desc& frame = *xsk_ring_prod__tx_desc(&tx_, to + i);
    frame = {gather_[i].address, gather_[i].length, 0};
    bytes += gather_[i].length;
  }
  xsk_ring_prod__submit(&tx_, gathered_);
  counters_.frames_out.add(gathered_);
  counters_.bytes_out.add(bytes);
  gathered_ = 0;
  kick();
}

/// The kernel takes a burst a call, and no more than the device has room for.
void AfXdpPort::kick() {
  if (unsent() && xsk_ring_prod__needs_wakeup(&tx_))
    ::sendto(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, 0);
}

/// Whether the kernel has not taken all that was submitted.
bool AfXdpPort::unsent() {
  return __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE) != tx_.cached_prod;
}

bool AfXdpPort::arm() {
  if (carrier()) {
    if (gathered_ > 0 || unsent()) return false;
    if (free_.empty()) reclaim();
    if (free_.empty()) return false;
  }
  return emptied_.empty() && xsk_cons_nb_avail(&rx_, 1) == 0;
}

// --- watching ---

void AfXdpPort::sample() {
  if (!gone_) queues_ = receive_queues(plan_.interface.name);
  xdp_statistics now{};
  socklen_t size = sizeof now;
  if (::getsockopt(fd_, SOL_XDP, XDP_STATISTICS, &now, &size) != 0) return;
  const std::uint64_t missed = now.rx_dropped + now.rx_ring_full;
  device_.drops.add(Drop::kNotReceived, missed - last_missed_);
  device_.drops.add(Drop::kNotSent, now.tx_invalid_descs - last_refused_);
  last_missed_ = missed;
  last_refused_ = now.tx_invalid_descs;
}

void AfXdpPort::follow_interface(const InterfaceState& state) {
  if (!state.exists || state.index != plan_.interface.index) gone_ = true;
  if (gone_) {
    carrier_ = false;
    return;
  }
  limit_ = std::min(plan_.max_frame, state.mtu + kEthernet);
  carrier_ = state.carrier();
}

std::string AfXdpPort::fault() const {
  const std::string& name = plan_.interface.name;
  if (gone_) return "interface " + name + " is gone (deleted, renamed or moved): create it again";
  const std::uint32_t limit = limit_.load(std::memory_order_relaxed);
  if (limit < plan_.max_frame)
    return "the MTU of interface " + name + " shrank to " + std::to_string(limit - kEthernet) +
           ", so that longer frames are refused: `ip link set " + name + " mtu " +
           std::to_string(plan_.max_frame - kEthernet) + "`";
  if (queues_ > 1) return too_many_queues(plan_.config, queues_).message;
  return {};
}

}  // namespace mtl::phy
