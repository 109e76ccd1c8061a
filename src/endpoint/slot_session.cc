#include "endpoint/slot_session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "runtime/random.h"
#include "runtime/settings/link_timers.h"
#include "runtime/settings/rate.h"

namespace mtl::endpoint {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{2000};      ///< of the first claim
constexpr milliseconds kPatienceAgain{100};  ///< while a link waits
/// Receive bursts, control frames, and errors in the making.
constexpr std::uint32_t kReserve = 256;

/// A locally administered unicast address, new for each process.
Mac random_mac() {
  runtime::RandomStock random;
  const std::array<std::uint32_t, 2> words{random.word(), random.word()};
  Mac mac;
  std::memcpy(mac.data(), words.data(), mac.size());
  mac[0] = (mac[0] & std::byte{0xFC}) | std::byte{0x02};
  return mac;
}

bool fits16(std::uint32_t value) {
  return value <= 0xFFFF;
}

/// What the daemon granted, checked: it is a peer, too.
Result<Settings> settings_of(const mtlink::control::SlotGrant& grant) {
  if (!fits16(grant.node()) || !fits16(grant.switch_node()) || !fits16(grant.switch_port()) ||
      !fits16(grant.mtu()) || !fits16(grant.cell()) || !fits16(grant.window()) ||
      grant.capacity_size() != kVcs || grant.hop_limit() == 0 || grant.hop_limit() > 255) {
    return Error{"the daemon granted a slot with values out of range: are both of one version?"};
  }
  Settings s;
  s.hop_limit = static_cast<std::uint8_t>(grant.hop_limit());
  s.link.node = NodeId{static_cast<std::uint16_t>(grant.node())};
  s.link.port = PortId{0};
  s.link.mac = random_mac();
  s.link.expect_node = NodeId{static_cast<std::uint16_t>(grant.switch_node())};
  s.link.expect_port = PortId{static_cast<std::uint16_t>(grant.switch_port())};
  s.link.mtu = static_cast<std::uint16_t>(grant.mtu());
  s.link.cell = static_cast<std::uint16_t>(grant.cell());
  s.link.window = static_cast<std::uint16_t>(grant.window());
  for (int v = 0; v < grant.capacity_size(); ++v) {
    if (!fits16(grant.capacity(v))) return Error{"the daemon granted a capacity out of range"};
    s.link.capacity[static_cast<std::size_t>(v)] = static_cast<std::uint16_t>(grant.capacity(v));
  }
  const auto timers = runtime::link_timers(grant.timers());
  if (!timers)
    return Error{"the daemon granted a slot that cannot be used: " + timers.error().message};
  s.link.timers = *timers;
  if (grant.has_rate()) s.rate = runtime::pacer_config(grant.rate());
  const char* why = link::fault(s.link);
  if (why == nullptr && s.rate) why = phy::fault(*s.rate);
  if (why != nullptr) {
    return Error{std::string("the daemon granted a slot that cannot be used: ") + why};
  }
  return s;
}

bool same(const Settings& a, const Settings& b) {
  return a.link.node == b.link.node && a.link.expect_node == b.link.expect_node &&
         a.link.expect_port == b.link.expect_port && a.link.mtu == b.link.mtu &&
         a.link.cell == b.link.cell && a.link.window == b.link.window &&
         a.link.capacity == b.link.capacity;
}

mtlink::control::ClaimSlot message(const SlotChoice& choice) {
  mtlink::control::ClaimSlot claim;
  claim.set_name(choice.name);
  if (choice.node) claim.set_node(choice.node->value());
  return claim;
}

}  // namespace

SlotSession::SlotSession(SlotChoice choice, control::Client client, control::SlotLease lease,
                         const Settings& settings)
    : choice_(std::move(choice)),
      client_(std::move(client)),
      lease_(std::move(lease)),
      settings_(settings) {}

Result<std::unique_ptr<SlotSession>> SlotSession::claim(const SlotChoice& choice) {
  auto client = control::Client::connect(choice.control_socket, kPatience);
  if (!client) return client.error();
  auto lease = client->claim_slot(message(choice), kPatience);
  if (!lease) return lease.error();
  const auto settings = settings_of(lease->grant);
  if (!settings) return settings.error();
  SlotChoice fixed = choice;  // to be claimed again by what it turned out to be
  fixed.name = lease->grant.name();
  fixed.node = settings->link.node;
  return std::unique_ptr<SlotSession>(
      new SlotSession(std::move(fixed), std::move(*client), std::move(*lease), *settings));
}

std::uint32_t SlotSession::buffers() const {
  const link::Config& c = settings_.link;
  // A packet of 16 bytes takes a cell and a buffer, so a VC may pin as many buffers as it has
  // cells.
  const auto receive = std::accumulate(c.capacity.begin(), c.capacity.end(), 0U);
  return receive + settings_.own_limit + c.send_window + kReserve;
}

Result<std::unique_ptr<phy::LocalPort>> SlotSession::attach(BufferPool& pool) {
  phy::LocalPortFds fds{Fd(lease_.memory.release()), Fd(lease_.doorbell.release())};
  return phy::LocalPort::attach(std::move(fds), lease_.grant.name(), pool);
}

Result<void> SlotSession::claim_again() {
  auto client = control::Client::connect(choice_.control_socket, kPatienceAgain);
  if (!client) return client.error();
  auto lease = client->claim_slot(message(choice_), kPatienceAgain);
  if (!lease) return lease.error();
  const auto settings = settings_of(lease->grant);
  if (!settings) return settings.error();
  if (!same(*settings, settings_)) {
    return Error{"slot " + choice_.name +
                 " is not what it was: the daemon has another configuration; restart this program"};
  }
  client_ = std::move(*client);
  lease_ = std::move(*lease);
  settings_.rate = settings->rate;
  return {};
}

}  // namespace mtl::endpoint
