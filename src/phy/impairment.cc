#include "phy/impairment.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "link/codec.h"

namespace mtl::phy {
namespace {

constexpr std::uint32_t kMillion = 1'000'000;

// Maps a random word to [0, bound) by its upper half: no division, and no std:: distribution, whose
// results differ between libraries.
std::uint64_t below(std::uint64_t word, std::uint32_t bound) {
  return ((word >> 32) * bound) >> 32;
}

bool happens(std::uint64_t word, std::uint32_t ppm) {
  return below(word, kMillion) < ppm;
}

// Uniform from 0 to `limit`, in 2^27 steps: limit is below 2^36 ns, so the product fits.
Duration part_of(Duration limit, std::uint64_t word) {
  const auto span = static_cast<std::uint64_t>(limit.count()) + 1;
  return Duration(static_cast<Duration::rep>(((word >> 37) * span) >> 27));
}
static_assert(kMaxImpairmentDelay < Duration{std::int64_t{1} << 36});

void flip_bit(std::span<std::byte> bytes, std::uint64_t word) {
  const auto bit = below(word, static_cast<std::uint32_t>(bytes.size() * 8));
  bytes[bit / 8] ^= std::byte{1} << (bit % 8);
}

// Which bytes of a frame which CRC covers (L1, N2). All empty: too short for a link's frame.
struct Regions {
  std::span<std::byte> header;       ///< link header without its CRC
  std::span<std::byte> header_rest;  ///< DATA: the network header; else the body
  std::span<std::byte> packet_only;  ///< DATA: what only the packet CRC covers, and that CRC
};

Regions find_regions(Buffer& frame) {
  Regions regions;
  if (frame.length < link::kFrameHeader) return regions;
  const auto link_header = frame.bytes().subspan(link::kEthernetHeader, link::kLinkHeader);
  regions.header = link_header.first(12);
  const auto behind = frame.bytes().subspan(link::kFrameHeader);
  const std::size_t length = load16(&link_header[2]);
  const auto body = behind.first(std::min(length, behind.size()));
  const bool data = (load8(&link_header[0]) & 0x0F) == static_cast<std::uint8_t>(link::Kind::kData);
  if (!data) {
    regions.header_rest = body;
    return regions;
  }
  regions.header_rest = body.first(std::min(link::kNetworkHeader, body.size()));
  regions.packet_only = body.subspan(regions.header_rest.size());
  return regions;
}

bool delay_ok(Duration delay) {
  return delay >= Duration{0} && delay <= kMaxImpairmentDelay;
}

}  // namespace

bool ImpairmentConfig::active() const {
  return drop_ppm != 0 || corrupt_header_ppm != 0 || corrupt_packet_ppm != 0 ||
         duplicate_ppm != 0 || reorder_ppm != 0 || delay != Duration{0} || jitter != Duration{0};
}

const char* fault(const ImpairmentConfig& config) {
  if (config.drop_ppm > kMillion) return "drop is above 1000000 ppm";
  if (config.corrupt_header_ppm > kMillion) return "corrupt_header is above 1000000 ppm";
  if (config.corrupt_packet_ppm > kMillion) return "corrupt_packet is above 1000000 ppm";
  if (config.duplicate_ppm > kMillion) return "duplicate is above 1000000 ppm";
  if (config.reorder_ppm > kMillion) return "reorder is above 1000000 ppm";
  if (!delay_ok(config.delay)) return "delay is not within 0 to 60 s";
  if (!delay_ok(config.jitter)) return "jitter is not within 0 to 60 s";
  if (!delay_ok(config.reorder_delay)) return "reorder_delay is not within 0 to 60 s";
  return nullptr;
}

struct Impairment::Draws {
  std::uint64_t drop, corrupt_header, header_bit, corrupt_packet, packet_bit;
  std::uint64_t duplicate, reorder, jitter, copy_jitter;
};

Impairment::Impairment(const ImpairmentConfig& config, std::uint32_t depth)
    : config_(config), state_(config.seed), depth_(depth) {
  assert(fault(config) == nullptr);
  held_.reserve(depth);
}

Impairment::~Impairment() {
  for (const Held& held : held_) give_back(held.frame);
}

void Impairment::configure(const ImpairmentConfig& config) {
  assert(fault(config) == nullptr);
  config_ = config;
  state_ = config.seed;
}

Time Impairment::next_deadline() const {
  return held_.empty() ? kNever : held_.front().due;
}

// Arrival decides between equal times, so that a constant delay keeps the order.
bool Impairment::later(const Held& a, const Held& b) {
  return a.due != b.due ? a.due > b.due : a.order > b.order;
}

// SplitMix64: a counter and a mixing function, the same on any platform and for any seed.
std::uint64_t Impairment::word() {
  state_ += 0x9E3779B97F4A7C15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

Impairment::Draws Impairment::draw() {
  Draws draws;
  for (std::uint64_t* each :
       {&draws.drop, &draws.corrupt_header, &draws.header_bit, &draws.corrupt_packet,
        &draws.packet_bit, &draws.duplicate, &draws.reorder, &draws.jitter, &draws.copy_jitter}) {
    *each = word();
  }
  return draws;
}

void Impairment::admit(Buffer* frame, Time now, BufferQueue& out) {
  const Draws draws = draw();
  if (happens(draws.drop, config_.drop_ppm)) {
    counters_.dropped.add();
    give_back(frame);
    return;
  }
  corrupt(*frame, draws);
  Buffer* twin = happens(draws.duplicate, config_.duplicate_ppm) ? copy(*frame) : nullptr;

  const Time due = now + config_.delay;
  Time frame_due = due + part_of(config_.jitter, draws.jitter);
  if (happens(draws.reorder, config_.reorder_ppm)) {
    frame_due += config_.reorder_delay;
    counters_.reordered.add();
  }
  release(frame, frame_due, now, out);
  if (twin != nullptr) release(twin, due + part_of(config_.jitter, draws.copy_jitter), now, out);
}

void Impairment::corrupt(Buffer& frame, const Draws& draws) {
  // Found before any bit changes: the length or the kind may be what gets flipped.
  const Regions regions = find_regions(frame);
  if (happens(draws.corrupt_header, config_.corrupt_header_ppm) && !regions.header.empty()) {
    const std::size_t first = regions.header.size();
    const auto bits = static_cast<std::uint32_t>((first + regions.header_rest.size()) * 8);
    const auto bit = below(draws.header_bit, bits);
    const std::size_t at = bit / 8;
    std::byte& byte = at < first ? regions.header[at] : regions.header_rest[at - first];
    byte ^= std::byte{1} << (bit % 8);
    frame.notes.crc = CrcState::kUnknown;
    counters_.header_corrupted.add();
  }
  if (happens(draws.corrupt_packet, config_.corrupt_packet_ppm) && !regions.packet_only.empty()) {
    flip_bit(regions.packet_only, draws.packet_bit);
    frame.notes.crc = CrcState::kUnknown;  // what the port found no longer holds
    counters_.packet_corrupted.add();
  }
}

Buffer* Impairment::copy(const Buffer& frame) {
  Buffer* twin = frame.pool->take();
  if (twin != nullptr && twin->tailroom < frame.length) {
    give_back(twin);
    twin = nullptr;
  }
  if (twin == nullptr) {
    counters_.uncopied.add();
    return nullptr;
  }
  std::memcpy(twin->data, frame.data, frame.length);
  twin->length = frame.length;
  twin->tailroom -= frame.length;
  twin->notes = frame.notes;
  counters_.duplicated.add();
  return twin;
}

void Impairment::release(Buffer* frame, Time due, Time now, BufferQueue& out) {
  if (due <= now) {
    out.push(frame);
    return;
  }
  if (held_.size() == depth_) {
    counters_.overflow.add();
    out.push(frame);
    return;
  }
  counters_.delayed.add();
  held_.push_back({due, order_++, frame});
  std::push_heap(held_.begin(), held_.end(), later);
}

void Impairment::collect_due(Time now, BufferQueue& out) {
  while (!held_.empty() && held_.front().due <= now) {
    std::pop_heap(held_.begin(), held_.end(), later);
    out.push(held_.back().frame);
    held_.pop_back();
  }
}

}  // namespace mtl::phy
