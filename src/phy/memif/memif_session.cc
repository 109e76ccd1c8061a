#include "phy/memif/memif_session.h"

#include <algorithm>
#include <utility>

namespace mtl::phy {
namespace {

/// Compares without telling by its time how much was right.
bool same(const MemifSecret& a, const MemifSecret& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

bool takes_descriptor(const MemifMessage& message) {
  return std::holds_alternative<MemifAddRegion>(message) ||
         std::holds_alternative<MemifAddRing>(message);
}

}  // namespace

MemifSession MemifSession::server(std::string name, Lookup lookup) {
  MemifSession out(MemifRole::kServer, std::move(name));
  out.lookup_ = std::move(lookup);
  out.state_ = State::kInit;
  MemifHello hello;
  hello.name = out.name_;
  hello.max_region = kMaxMemifRegions - 1;
  hello.max_log2_ring = kMaxMemifLog2Ring;
  out.push(hello);
  return out;
}

MemifSession MemifSession::client(std::string name, const ClientConfig& config, Make make) {
  MemifSession out(MemifRole::kClient, std::move(name));
  out.config_ = config;
  out.make_ = std::move(make);
  out.state_ = State::kHello;
  return out;
}

std::optional<MemifSession::Out> MemifSession::next() {
  if (out_.empty()) return std::nullopt;
  const Out out = out_.front();
  out_.pop_front();
  return out;
}

void MemifSession::receive(std::span<const std::byte> bytes, std::vector<Fd> fds) {
  if (ended()) return;
  if (bytes.size() != kMemifMessage) return fail("Invalid message size");
  const auto message = decode_memif(bytes);
  if (!message) return fail("Unknown message type");
  const std::size_t wanted = takes_descriptor(*message) ? 1 : 0;
  if (fds.size() < wanted) return fail("Missing descriptor");
  if (fds.size() > wanted) return fail("Too many descriptors");
  std::visit([&](const auto& m) { take(m, fds); }, *message);
}

void MemifSession::fail(const std::string& reason) {
  why_ = "the peer was sent away: " + reason;
  push(MemifDisconnect{0, reason});
  state_ = State::kEnded;
}

void MemifSession::disconnect(const std::string& reason) {
  if (!ended()) fail(reason);
}

void MemifSession::connected() {
  if (!ready()) return;
  state_ = State::kUp;
  was_up_ = true;
  if (role_ == MemifRole::kServer) push(MemifConnected{name_});
}

// --- server ---

void MemifSession::take(const MemifInit& init, std::vector<Fd>&) {
  if (state_ != State::kInit) return fail("Unexpected message");
  if (init.version != kMemifVersion) return fail("Incompatible memif version");
  const Offer* offer = lookup_(init.id);
  if (offer == nullptr) return fail("ID not found");
  if (init.mode != kMemifEthernet) return fail("Only ethernet mode supported");
  if (offer->secret != MemifSecret{} && !same(offer->secret, init.secret)) {
    return fail(init.secret == MemifSecret{} ? "Secret required" : "Incorrect secret");
  }
  if (offer->taken) return fail("Already connected");
  id_ = init.id;
  max_region_mib_ = offer->max_region_mib;
  peer_ = init.name;
  state_ = State::kSetUp;
  push(MemifAck{});
}

void MemifSession::take(const MemifAddRegion& add, std::vector<Fd>& fds) {
  if (state_ != State::kSetUp) return fail("Unexpected message");
  if (add.index != layout_.regions.size()) return fail("Invalid region index");
  if (add.index >= kMaxMemifRegions) {
    return fail("More than " + std::to_string(kMaxMemifRegions) + " regions");
  }
  if (add.size == 0 || add.size > kMaxMemifRegion) return fail("Invalid region size");
  if (add.size > (std::uint64_t{max_region_mib_} << 20) - memory_) {
    return fail("Regions of more than " + std::to_string(max_region_mib_) +
                " MiB: the server's max_region_mib");
  }
  memory_ += add.size;
  layout_.regions.push_back({std::move(fds.front()), add.size});
  push(MemifAck{});
}

void MemifSession::take(const MemifAddRing& add, std::vector<Fd>& fds) {
  if (state_ != State::kSetUp) return fail("Unexpected message");
  if (add.index != 0) return fail("Invalid ring index");
  MemifRing& ring = add.to_server ? layout_.to_server : layout_.to_client;
  if (ring.interrupt) return fail("Duplicate ring");
  if (add.log2_ring == 0 || add.log2_ring > kMaxMemifLog2Ring) return fail("Invalid ring size");
  if (add.offset % alignof(std::uint64_t) != 0) return fail("Misaligned ring");
  ring = {add.region, add.offset, add.log2_ring, std::move(fds.front())};
  push(MemifAck{});
}

bool MemifSession::ring_fits(const MemifRing& ring) const {
  return ring.region < layout_.regions.size() &&
         ring.offset + memif_ring_bytes(ring.log2) <= layout_.regions[ring.region].size;
}

void MemifSession::take(const MemifConnect&, std::vector<Fd>&) {
  if (state_ != State::kSetUp) return fail("Unexpected message");
  if (!layout_.to_server.interrupt || !layout_.to_client.interrupt) return fail("Missing ring");
  if (!ring_fits(layout_.to_server) || !ring_fits(layout_.to_client)) {
    return fail("Ring outside its region");
  }
  state_ = State::kReady;
}

// --- client ---

void MemifSession::take(const MemifHello& hello, std::vector<Fd>&) {
  if (state_ != State::kHello) return fail("Unexpected message");
  peer_ = hello.name;
  if (hello.min_version > kMemifVersion || hello.max_version < kMemifVersion) {
    return fail("Incompatible memif version");
  }
  if (hello.max_log2_ring == 0) return fail("Invalid ring size");
  log2_ring_ = std::min(hello.max_log2_ring, config_.log2_ring);
  MemifInit init;
  init.id = config_.id;
  init.secret = config_.secret;
  init.name = name_;
  push(init);
  state_ = State::kAsking;
}

/// And all that is to be told of it. False: ended.
bool MemifSession::make_memory() {
  auto made = make_(log2_ring_);
  if (!made) {
    why_ = made.error().message;
    push(MemifDisconnect{0, "No memory"});
    state_ = State::kEnded;
    return false;
  }
  layout_ = std::move(*made);
  for (std::size_t i = 0; i < layout_.regions.size(); ++i) {
    const MemifRegion& region = layout_.regions[i];
    to_tell_.push_back(
        {encode(MemifAddRegion{static_cast<std::uint16_t>(i), region.size}), region.memory.get()});
  }
  for (const bool to_server : {true, false}) {
    const MemifRing& ring = to_server ? layout_.to_server : layout_.to_client;
    to_tell_.push_back({encode(MemifAddRing{to_server, 0, ring.region, ring.offset, ring.log2}),
                        ring.interrupt.get()});
  }
  state_ = State::kTelling;
  return true;
}

void MemifSession::take(const MemifAck&, std::vector<Fd>&) {
  if (state_ == State::kAsking && !make_memory()) return;
  if (state_ != State::kTelling) return fail("Unexpected message");
  if (to_tell_.empty()) {
    push(MemifConnect{name_});
    state_ = State::kConnecting;
    return;
  }
  out_.push_back(to_tell_.front());
  to_tell_.pop_front();
}

void MemifSession::take(const MemifConnected&, std::vector<Fd>&) {
  if (state_ != State::kConnecting) return fail("Unexpected message");
  state_ = State::kReady;
}

// --- both ---

void MemifSession::take(const MemifDisconnect& disconnect, std::vector<Fd>&) {
  why_ = "the peer said: " + (disconnect.reason.empty() ? "no reason" : disconnect.reason);
  state_ = State::kEnded;
}

}  // namespace mtl::phy
