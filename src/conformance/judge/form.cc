#include "conformance/judge/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/byte_order.h"

namespace mtl::conformance::judge {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kEchoAt = link::kNetworkHeader;
constexpr std::size_t kEchoHeader = 8;
constexpr std::size_t kErrorData = 28;
constexpr std::uint8_t kEcho = 2;  // proto
constexpr std::uint8_t kReply = 2;
constexpr std::uint8_t kFirstError = 3;
constexpr std::uint8_t kLastEcho = 4;
constexpr std::uint8_t kMostReason = 2;

struct Place {
  const LinkFrame& frame;
  std::size_t side;
  Reporter& reporter;

  template <class Why>
  void found(std::string_view rule, Why&& why) const {
    reporter.certain(side, rule, frame.tap->number, frame.tap->at, std::forward<Why>(why));
  }
  /// Of what no CRC of the protocol covers.
  template <class Why>
  void found_unless(std::string_view rule, Why&& why) const {
    reporter.unless_missed(side, rule, frame.tap->number, frame.tap->at, std::forward<Why>(why));
  }
};

link::Kind kind_of(const LinkFrame& frame) {
  return static_cast<link::Kind>(frame.kind);
}

bool legal_length(const LinkFrame& frame) {
  const std::size_t length = frame.body_length;
  switch (kind_of(frame)) {
    case link::Kind::kData:
      return length >= link::kMinPacket;
    case link::Kind::kStatus:
      return length == link::kStatusBody;
    case link::Kind::kNack:
      return length >= link::kNackRange && length <= link::kMaxControlBody &&
             length % link::kNackRange == 0;
    case link::Kind::kInit:
      return length == link::kInitBody;
    case link::Kind::kClose:
      return length == link::kCloseBody;
  }
  return false;
}

bool group(const Mac& mac) {
  return (std::to_integer<unsigned>(mac[0]) & 1U) != 0;
}

/// L2: what is 0 in INIT and CLOSE, and beside DATA.
void judge_zeros(const Place& at) {
  const LinkFrame& f = at.frame;
  const link::Kind kind = kind_of(f);
  if (kind != link::Kind::kData && f.vc != 0) {
    at.found("L2", [&] { return fmt::format("VC {} in a {}; it must be 0", f.vc, name(kind)); });
  }
  if (kind == link::Kind::kInit || kind == link::Kind::kClose) {
    if (f.seq != Seq{} || f.ack != Seq{} || f.flags != 0 || f.credit != CellCount{} ||
        f.credit_vc != link::kNoCreditVc) {
      at.found("L2", [&] {
        return fmt::format(
            "{} with seq {}, ack {}, flags {}, credit {} of VC {}; all must be 0, "
            "and the VC 15",
            name(kind), f.seq.value(), f.ack.value(), f.flags, f.credit.value(), f.credit_vc);
      });
    }
    if (kind == link::Kind::kInit && f.epoch != 0) {
      at.found("L2", [&] { return fmt::format("epoch {} in an INIT; it must be 0", f.epoch); });
    }
  }
}

void judge_credit(const Place& at) {
  const LinkFrame& f = at.frame;
  const link::Kind kind = kind_of(f);
  if (kind == link::Kind::kData) {
    if (f.credit_vc == link::kNoCreditVc && f.credit != CellCount{}) {
      at.found("L24", [&] { return fmt::format("credit {} of no VC", f.credit.value()); });
    }
  } else if ((kind == link::Kind::kStatus || kind == link::Kind::kNack) &&
             (f.credit_vc != link::kNoCreditVc || f.credit != CellCount{})) {
    at.found("L23", [&] {
      return fmt::format("{} with credit {} of VC {}; they carry 0 of VC 15", name(kind),
                         f.credit.value(), f.credit_vc);
    });
  }
}

/// Section 2: each flag belongs to one kind, and what has no meaning is zero.
void judge_flags(const Place& at) {
  const LinkFrame& f = at.frame;
  unsigned known = 0;
  if (kind_of(f) == link::Kind::kData) known = link::kFlagReplay;
  if (kind_of(f) == link::Kind::kStatus) known = link::kFlagEcho | link::kFlagPoll;
  if (kind_of(f) == link::Kind::kInit || kind_of(f) == link::Kind::kClose) return;  // judge_zeros()
  if ((f.flags & ~known) != 0) {
    at.found("L2", [&] {
      return fmt::format("flags {:#04x} in a {}, where {:#04x} have a meaning", f.flags,
                         name(kind_of(f)), known);
    });
  }
}

void judge_padding(const Place& at) {
  const auto& padding = at.frame.padding;
  const bool zeros =
      std::all_of(padding.begin(), padding.end(), [](std::byte b) { return b == std::byte{0}; });
  if (!zeros) at.found_unless("P4", [] { return std::string("padding that is not zeros"); });
}

/// Section 3.3: t_echo is 0 without ECHO.
void judge_echo_time(const Place& at) {
  constexpr std::size_t kEchoTimeAt = 20;
  const std::uint32_t t_echo = load32(at.frame.body.data() + kEchoTimeAt);
  if ((at.frame.flags & link::kFlagEcho) != 0 || t_echo == 0) return;
  at.found("L19", [&] { return fmt::format("t_echo {} in a STATUS without ECHO", t_echo); });
}

void judge_close(const Place& at) {
  const std::byte* body = at.frame.body.data();
  const std::uint8_t reason = load8(body);
  if (reason == 0 || reason > kMostReason || (load32(body) & 0xFFFFFFU) != 0) {
    at.found("L8", [&] {
      return fmt::format("CLOSE with body {:08x}: a reason, 1 or 2, and zeros", load32(body));
    });
  }
}

/// L15: the fewest ranges, none empty, in order from E on. False: nothing can be read out of them.
bool judge_ranges(const Place& at) {
  const LinkFrame& f = at.frame;
  std::uint32_t behind = 0;  // of the last range's end, counted from E
  for (std::size_t i = 0; i * link::kNackRange < f.body_length; ++i) {
    const std::byte* range = f.body.data() + i * link::kNackRange;
    const Seq first{load16(range)};
    const std::uint32_t count = load16(range + 2);
    const std::uint32_t from = first.since(f.ack);
    if (count == 0 || from + count > link::kMaxWindow || (i != 0 && from < behind)) {
      at.found("L15", [&] {
        return fmt::format(
            "range {} x {} in a NACK from {} on; ranges go up from there, by the "
            "window at most, and none is empty",
            first.value(), count, f.ack.value());
      });
      return false;
    }
    if (i != 0 && from == behind) {
      at.found("L15", [&] {
        return fmt::format("a range begins at seq {}, where the one before it ends; they are one",
                           first.value());
      });
    }
    behind = from + count;
  }
  return true;
}

std::uint16_t destination(const LinkFrame& frame) {
  return load16(frame.body.data() + 4);
}
std::uint16_t source(const LinkFrame& frame) {
  return load16(frame.body.data() + 6);
}
unsigned class_of(const LinkFrame& frame) {
  return load8(frame.body.data() + 2) >> 4;
}

/// The type of the echo that the packet is, else 0.
std::uint8_t echo_type(const LinkFrame& frame) {
  const bool echo = (load8(frame.body.data() + 2) & 0x0F) == kEcho;
  if (!echo || frame.body_length < link::kMinPacket + kEchoHeader) return 0;
  return load8(frame.body.data() + kEchoAt);
}

bool made_by(const LinkFrame& frame, std::optional<NodeId> node) {
  return node && source(frame) == node->value();
}

/// N11: of replies and errors that this node made.
void judge_echo(const Place& at) {
  const LinkFrame& f = at.frame;
  const std::uint8_t type = echo_type(f);
  if (type < kReply || type > kLastEcho) return;
  if (class_of(f) != 1) {
    at.found("N11", [&] {
      return fmt::format("an echo of type {} in class {}; they go in class 1", type, class_of(f));
    });
  }
  if (type < kFirstError) return;
  const std::size_t data = f.body_length - link::kMinPacket - kEchoHeader;
  const std::byte* echo = f.body.data() + kEchoAt;
  if (data > kErrorData || load8(echo + 1) != 0 || load16(echo + 2) != 0 || load16(echo + 4) != 0 ||
      load16(echo + 6) != 0) {
    at.found("N11", [&] {
      return fmt::format(
          "an echo error with {} bytes of data, code {}, id {}, number {}; 28 bytes "
          "at most, and zeros",
          data, load8(echo + 1), load16(echo + 2), load16(echo + 4));
    });
  }
}

}  // namespace

bool legal_shape(const LinkFrame& frame) {
  return frame.version == kVersion && frame.kind < link::kKinds && legal_length(frame);
}

bool judge_shape(const LinkFrame& frame, std::size_t side, Reporter& reporter) {
  const Place at{frame, side, reporter};
  if (frame.version != kVersion) {
    at.found("L3", [&] { return fmt::format("version {}; there is 1", frame.version); });
    return false;
  }
  if (!legal_shape(frame)) {
    at.found("L3", [&] {
      return fmt::format("kind {} with a body of {} bytes, which no receiver takes", frame.kind,
                         frame.body_length);
    });
    return false;
  }
  if (frame.vc >= kVcs || (frame.credit_vc >= kVcs && frame.credit_vc != link::kNoCreditVc)) {
    at.found("L3", [&] {
      return fmt::format("VC {}, credit VC {}, which no receiver takes", frame.vc, frame.credit_vc);
    });
    return false;
  }
  return true;
}

bool judge_form(const LinkFrame& frame, std::size_t side, Reporter& reporter) {
  const Place at{frame, side, reporter};
  judge_zeros(at);
  judge_credit(at);
  judge_flags(at);
  if (!frame.padding.empty()) judge_padding(at);
  const link::Kind kind = kind_of(frame);
  // Who does not know its peer yet sends to a group, but then has an INIT alone to send.
  const bool knows = kind != link::Kind::kInit || read_init(frame).peer_nonce != 0;
  if (knows && group(frame.to)) {
    at.found_unless("P2", [&] {
      return fmt::format("{} to a group address, though it knows its peer", name(kind));
    });
  }
  if (kind == link::Kind::kClose) judge_close(at);
  if (kind == link::Kind::kStatus) judge_echo_time(at);
  return kind != link::Kind::kNack || judge_ranges(at);
}

link::Init read_init(const LinkFrame& frame) {
  const std::byte* b = frame.body.data();
  link::Init init;
  init.nonce = load32(b);
  init.peer_nonce = load32(b + 4);
  init.node = NodeId{load16(b + 8)};
  init.port = PortId{load16(b + 10)};
  init.mtu = load16(b + 12);
  init.epoch = load8(b + 14);
  init.vcs = load8(b + 15);
  init.cell = load16(b + 16);
  init.window = load16(b + 18);
  for (std::size_t vc = 0; vc < kVcs; ++vc) init.capacity[vc] = load16(b + 20 + 2 * vc);
  init.capabilities = load32(b + 36);
  return init;
}

bool judge_init(const link::Init& init, const LinkFrame& frame, std::size_t side,
                Reporter& reporter) {
  std::uint32_t sum = 0;
  for (const std::uint16_t capacity : init.capacity) sum += capacity;
  const bool refused = init.vcs != kVcs || init.cell == 0 || init.window == 0 ||
                       init.window > link::kMaxWindow || init.epoch == 0 || init.nonce == 0 ||
                       init.mtu < link::kMinMtu || sum > link::kMaxCapacitySum;
  const Place at{frame, side, reporter};
  if (refused) {
    at.found("L6", [&] {
      return fmt::format(
          "an INIT that each peer refuses: nonce {}, epoch {}, vcs {}, cell {}, "
          "window {}, mtu {}, capacities {} in all",
          init.nonce, init.epoch, init.vcs, init.cell, init.window, init.mtu, sum);
    });
  }
  return refused;
}

void judge_packet(const LinkFrame& frame, std::size_t side, std::optional<NodeId> node,
                  Reporter& reporter) {
  const Place at{frame, side, reporter};
  const unsigned packet_class = class_of(frame);
  if (packet_class != frame.vc / kLayers) {
    at.found("N1",
             [&] { return fmt::format("a packet of class {} on VC {}", packet_class, frame.vc); });
  }
  const bool named = destination(frame) >= kMinNode && destination(frame) <= kMaxNode;
  if (!named) {
    at.found("N3", [&] { return fmt::format("a packet to node {}", destination(frame)); });
  }
  const bool own = made_by(frame, node);
  if (load8(frame.body.data()) == 0 && node && !own) {
    at.found("N6", [&] {
      return fmt::format("passes on a packet of node {} with hop limit 0", source(frame));
    });
  }
  if (own) judge_echo(at);
}

bool is_own_error(const LinkFrame& frame, std::optional<NodeId> node) {
  return made_by(frame, node) && echo_type(frame) >= kFirstError && echo_type(frame) <= kLastEcho;
}

}  // namespace mtl::conformance::judge
