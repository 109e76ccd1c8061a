#include "phy/shared_device.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "base/byte_order.h"
#include "base/mac_text.h"
#include "link/codec.h"

namespace mtl::phy {
namespace {

constexpr std::size_t kSourceAt = 6;
constexpr std::size_t kTypeAt = 12;
constexpr std::uint16_t kVlanMask = 0x0FFF;

std::uint64_t number(const std::byte* mac) {
  return std::uint64_t{load32(mac)} << 16 | load16(mac + 4);
}

}  // namespace

std::string Share::text() const {
  std::string out;
  if (vlan) out = "vlan " + std::to_string(vlan->value());
  if (peer) out += (out.empty() ? "peer " : ", peer ") + mac_text(*peer);
  return out;
}

bool Share::meets(const Share& other) const {
  return vlan == other.vlan && (!peer || !other.peer || *peer == *other.peer);
}

/// Keeps the frames of its own that have arrived until it is asked for them.
class SharedDevice::SharePort final : public Port {
 public:
  SharePort(SharedDevice& shared, const Share& share, bool first)
      : shared_(shared), share_(share), first_(first) {
    traits_ = shared.device_.traits();
    if (const std::string mine = share.text(); !mine.empty()) traits_.device += " " + mine;
  }
  ~SharePort() override {
    while (!waiting_.empty()) give_back(waiting_.pop());
  }
  SharePort(const SharePort&) = delete;
  SharePort& operator=(const SharePort&) = delete;

  void push(Buffer* frame) { waiting_.push(frame); }

  unsigned receive(std::span<Buffer*> out) override {
    if (first_) shared_.take_in();
    unsigned n = 0;
    std::uint64_t bytes = 0;
    while (n < out.size() && !waiting_.empty()) {
      out[n] = waiting_.pop();
      bytes += out[n++]->length;
    }
    shared_.waiting_ -= n;
    counters_.frames_in.add(n);
    counters_.bytes_in.add(bytes);
    return n;
  }

  unsigned room() override {
    const unsigned room = shared_.device_.room();
    if (room == 0) counters_.send_full.add();
    return room;
  }

  bool send(const link::FrameOut& frame) override {
    const std::uint32_t length = frame.length();
    bool sent = false;
    if (share_.vlan) {
      shared_.tagged_.set_tagged(frame, *share_.vlan);
      sent = shared_.device_.send(shared_.tagged_);
    } else {
      sent = shared_.device_.send(frame);
    }
    if (!sent) return false;  // the device counts why
    counters_.frames_out.add();
    counters_.bytes_out.add(length);
    return true;
  }

  const DropCounters& refusals() const override { return shared_.device_.refusals(); }

  void flush() override {
    if (first_) shared_.device_.flush();
  }
  bool carrier() override { return shared_.device_.carrier(); }
  bool arm() override { return waiting_.empty() && (!first_ || shared_.device_.arm()); }
  void disarm() override {
    if (first_) shared_.device_.disarm();
  }

 private:
  SharedDevice& shared_;
  Share share_;
  bool first_;
  BufferQueue waiting_;
};

SharedDevice::SharedDevice(Port& device, std::uint16_t ether_type, const std::vector<Share>& shares)
    : device_(device), ether_type_(ether_type) {
  for (const Share& share : shares) {
    ports_.push_back(std::make_unique<SharePort>(*this, share, ports_.empty()));
    keys_.push_back({key(share.vlan ? share.vlan->value() : std::uint16_t{0},
                         share.peer ? number(share.peer->data()) : kAnySource),
                     ports_.back().get()});
  }
  std::sort(keys_.begin(), keys_.end(),
            [](const Key& a, const Key& b) { return a.value < b.value; });
  const auto twice = std::adjacent_find(
      keys_.begin(), keys_.end(), [](const Key& a, const Key& b) { return a.value == b.value; });
  assert(twice == keys_.end());
  (void)twice;
}

SharedDevice::~SharedDevice() = default;

Port& SharedDevice::port(std::size_t i) {
  return *ports_[i];
}

std::uint64_t SharedDevice::key(std::uint16_t vlan, std::uint64_t source) {
  return std::uint64_t{vlan} << 48 | source;
}

SharedDevice::SharePort* SharedDevice::find(std::uint64_t key) const {
  const auto at = std::lower_bound(keys_.begin(), keys_.end(), key,
                                   [](const Key& a, std::uint64_t b) { return a.value < b; });
  return at != keys_.end() && at->value == key ? at->port : nullptr;
}

void SharedDevice::take_in() {
  if (waiting_ >= kBurst) return;  // of a port that gets more than its part
  std::array<Buffer*, kBurst> frames;
  const unsigned n = device_.receive(frames);
  for (unsigned i = 0; i < n; ++i) {
    if (i + 1 < n) __builtin_prefetch(frames[i + 1]->data);
    sort(frames[i]);
  }
}

void SharedDevice::sort(Buffer* frame) {
  const std::byte* const bytes = frame->data;
  std::uint16_t vlan = 0;
  bool tagged = false;
  if (frame->length < link::kEthernetHeader) {
    counters_.drops.add(Drop::kForeign);
    give_back(frame);
    return;
  }
  std::uint16_t type = load16(bytes + kTypeAt);
  if (type == link::kVlanEtherType && frame->length >= link::kEthernetHeader + link::kVlanTag) {
    tagged = true;
    vlan = load16(bytes + kTypeAt + 2) & kVlanMask;  // 0: priority alone, no VLAN (802.1Q)
    type = load16(bytes + kTypeAt + link::kVlanTag);
  }
  if (type != ether_type_) {
    give_back(frame);  // P2: not a link's, not counted
    return;
  }
  SharePort* port = find(key(vlan, number(bytes + kSourceAt)));
  if (port == nullptr) port = find(key(vlan, kAnySource));
  if (port == nullptr) {
    counters_.drops.add(Drop::kForeign);
    give_back(frame);
    return;
  }
  if (tagged) {
    std::memmove(frame->data + link::kVlanTag, frame->data, kTypeAt);
    frame->pull(link::kVlanTag);
  }
  port->push(frame);
  ++waiting_;
}

}  // namespace mtl::phy
