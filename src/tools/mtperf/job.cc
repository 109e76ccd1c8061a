#include "tools/mtperf/job.h"

#include "base/byte_order.h"

namespace mtl::mtperf {
namespace {

constexpr std::uint32_t kMagic = 0x4D545032;  // "MTP2"
constexpr std::uint8_t kLatency = 1;
constexpr std::uint8_t kBoth = 2;
constexpr std::uint8_t kVerify = 4;
constexpr std::uint8_t kAllFlags = kLatency | kBoth | kVerify;

// Where each field stands.
constexpr std::size_t kKindAt = 4;
constexpr std::size_t kModeAt = 5;
constexpr std::size_t kFlagsAt = 6;
constexpr std::size_t kCutShortAt = 7;
constexpr std::size_t kDepthAt = 8;
constexpr std::size_t kSizeAt = 16;
constexpr std::size_t kSeedAt = 24;
constexpr std::size_t kKeyAt = 32;
constexpr std::size_t kOperationsAt = 40;
constexpr std::size_t kReceivedAt = 48;
constexpr std::size_t kAlteredAt = 56;
constexpr std::size_t kLimitAt = 64;
constexpr std::size_t kTookAt = 72;

}  // namespace

const char* name(Mode mode) {
  constexpr std::array<const char*, kModes> kNames{"write", "read", "send",
                                                   "store", "load", "atomic"};
  return kNames[static_cast<std::size_t>(mode)];
}

std::uint64_t server_memory(const Job& job) {
  if (job.mode == Mode::kSend) {
    const std::uint64_t own = job.both ? job.window() : job.latency ? job.size : 0;
    return job.receives() * job.size + own;
  }
  // Its own side of a job for both ways; and what it put is read back.
  const std::uint64_t sides = job.both ? (job.verify && job.mode == Mode::kWrite ? 3 : 2) : 1;
  return sides * job.window() + (job.latency ? job.size : 0);
}

const char* fault(const Job& job) {
  if (job.depth < 1 || job.depth > kMaxDepth) return "--depth: 1 to 4096";
  if (job.size < 1 || job.size > kMaxSize) return "--size: 1 to 1073741824 bytes";
  if (job.window() > kMaxSize) return "--size times --depth: at most 1073741824 bytes";
  if (job.mode == Mode::kAtomic && job.size != sizeof(std::uint64_t)) return "atomic: --size is 8";
  if (job.mode == Mode::kStore && job.size > 64) return "store: --size is 1 to 64";
  const bool there_and_back = job.mode == Mode::kWrite || job.mode == Mode::kSend;
  if (job.latency && !there_and_back) return "--latency: of write and send";
  if (job.latency && job.verify) return "--verify: not with --latency, which sends the same again";
  if (job.latency && job.depth != 1) return "--latency: one at a time, so --depth is 1";
  const bool can_both = there_and_back || job.mode == Mode::kRead;
  if (job.both && (job.latency || !can_both))
    return "--bidirectional: of write, read and send, and not with --latency";
  return nullptr;
}

ControlBytes encode(const Control& control) {
  ControlBytes bytes{};
  std::byte* const out = bytes.data();
  const Job& job = control.job;
  store32(out, kMagic);
  store8(out + kKindAt, static_cast<std::uint8_t>(control.kind));
  store8(out + kModeAt, static_cast<std::uint8_t>(job.mode));
  store8(out + kFlagsAt,
         static_cast<std::uint8_t>((job.latency ? kLatency : 0) | (job.both ? kBoth : 0) |
                                   (job.verify ? kVerify : 0)));
  store8(out + kCutShortAt, control.cut_short ? 1 : 0);
  store32(out + kDepthAt, job.depth);
  store64(out + kSizeAt, job.size);
  store64(out + kSeedAt, job.seed);
  store64(out + kKeyAt, control.key.value());
  store64(out + kOperationsAt, control.operations);
  store64(out + kReceivedAt, control.received);
  store64(out + kAlteredAt, control.altered);
  store64(out + kLimitAt, control.limit);
  store64(out + kTookAt, control.took_ns);
  return bytes;
}

std::optional<Control> decode_control(std::span<const std::byte> message) {
  if (message.size() != kControlBytes || load32(message.data()) != kMagic) return std::nullopt;
  const std::byte* const in = message.data();
  const std::uint8_t kind = load8(in + kKindAt);
  const std::uint8_t mode = load8(in + kModeAt);
  const std::uint8_t flags = load8(in + kFlagsAt);
  if (kind < static_cast<std::uint8_t>(Control::Kind::kJob) ||
      kind > static_cast<std::uint8_t>(Control::Kind::kResult) || mode >= kModes ||
      (flags & ~kAllFlags) != 0 || load8(in + kCutShortAt) > 1) {
    return std::nullopt;
  }
  Control control;
  control.kind = static_cast<Control::Kind>(kind);
  control.job = {static_cast<Mode>(mode), (flags & kLatency) != 0, (flags & kBoth) != 0,
                 (flags & kVerify) != 0,  load32(in + kDepthAt),   load64(in + kSizeAt),
                 load64(in + kSeedAt)};
  control.cut_short = load8(in + kCutShortAt) != 0;
  control.key = transport::Key{load64(in + kKeyAt)};
  control.operations = load64(in + kOperationsAt);
  control.received = load64(in + kReceivedAt);
  control.altered = load64(in + kAlteredAt);
  control.limit = load64(in + kLimitAt);
  control.took_ns = load64(in + kTookAt);
  if (fault(control.job) != nullptr) return std::nullopt;
  return control;
}

}  // namespace mtl::mtperf
