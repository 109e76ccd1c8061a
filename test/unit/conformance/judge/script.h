#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "conformance/judge/judge.h"
#include "link/codec.h"

namespace mtl::conformance::judge {

inline constexpr std::size_t kA = 0;
inline constexpr std::size_t kB = 1;

/// What a DATA frame says; a test names what matters to it.
struct Data {
  std::uint16_t seq = 0;
  std::uint16_t ack = 0;
  std::uint8_t vc = 0;
  std::uint8_t flags = 0;
  std::uint8_t credit_vc = link::kNoCreditVc;
  std::uint16_t credit = 0;
  std::uint16_t length = 64;
  std::uint8_t content = 0;  ///< of the payload
  bool good = true;          ///< packet CRC
  std::uint8_t hop_limit = 16;
  std::optional<std::uint8_t> packet_class = std::nullopt;  ///< that of the VC
  std::uint8_t proto = 4;
  std::optional<std::uint16_t> src = std::nullopt;  ///< the side's node
  std::uint16_t dst = 99;
  std::vector<std::uint8_t> payload{};  ///< in front of `content`
};

struct Stat {
  std::uint16_t seq = 0;
  std::uint16_t ack = 0;
  std::uint16_t allocation = 16;  ///< of VC 0; of the others 16
  std::uint8_t flags = 0;
  std::uint32_t t_tx = 0;
  std::uint32_t t_echo = 0;
};

/// Plays frames of one link to a judge, a microsecond apart, and collects what it finds. Sides A
/// (node 7, nonce 0xA1, epoch 17) and B (node 9, nonce 0xB1, epoch 34): window 4, cell 64, 16
/// cells for each VC, mtu 256.
class Script final : private FindingSink {
 public:
  explicit Script(bool complete = true) : judge_({.complete = complete}, *this) {
    for (std::size_t side = 0; side < 2; ++side) {
      offer[side].nonce = side == kA ? 0xA1 : 0xB1;
      offer[side].node = NodeId{static_cast<std::uint16_t>(side == kA ? 7 : 9)};
      offer[side].mtu = 256;
      offer[side].epoch = side == kA ? 17 : 34;
      offer[side].cell = 64;
      offer[side].window = 4;
      offer[side].capacity.fill(16);
    }
  }

  std::array<link::Init, 2> offer;
  /// Changes the bytes of the next frame, its CRCs as they were.
  std::function<void(std::vector<std::byte>&)> spoil;
  /// Changes the header of the next frame before its CRC is made.
  std::function<void(link::Header&)> alter;
  std::uint32_t interface = 0;
  std::uint32_t section = 0;
  std::optional<std::size_t> captured;  ///< bytes of the next frames that the capture has

  void wait(Duration duration) { now_ += duration; }
  Time now() const { return now_; }

  void init(std::size_t side, std::uint32_t peer_nonce,
            std::optional<std::size_t> length = std::nullopt) {
    std::array<std::byte, link::kInitBody> body;
    link::Init init = offer[side];
    init.peer_nonce = peer_nonce;
    link::encode(init, body.data());
    const std::size_t mtu = std::min(offer[kA].mtu, offer[kB].mtu);
    const std::size_t usual = peer_nonce == 0 ? link::kMinFrame : link::kFrameHeader + mtu;
    send(side, {.kind = link::Kind::kInit, .epoch = 0, .length = link::kInitBody}, body,
         length.value_or(usual), peer_nonce == 0);
  }
  void status(std::size_t side, const Stat& stat) {
    std::array<std::byte, link::kStatusBody> body;
    link::Status status;
    status.allocation.fill(CellCount{16});
    status.allocation[0] = CellCount{stat.allocation};
    status.t_tx = stat.t_tx;
    status.t_echo = stat.t_echo;
    link::encode(status, body.data());
    send(side,
         {.kind = link::Kind::kStatus,
          .epoch = offer[1 - side].epoch,
          .length = link::kStatusBody,
          .seq = Seq{stat.seq},
          .ack = Seq{stat.ack},
          .flags = stat.flags},
         body);
  }
  void nack(std::size_t side, std::uint16_t seq, std::uint16_t ack,
            const std::vector<std::pair<std::uint16_t, std::uint16_t>>& ranges) {
    std::vector<link::NackRange> all;
    for (const auto& [first, count] : ranges) all.push_back({Seq{first}, count});
    std::vector<std::byte> body(all.size() * link::kNackRange);
    link::encode(std::span<const link::NackRange>(all), body.data());
    send(side,
         {.kind = link::Kind::kNack,
          .epoch = offer[1 - side].epoch,
          .length = static_cast<std::uint16_t>(body.size()),
          .seq = Seq{seq},
          .ack = Seq{ack}},
         body);
  }
  void close(std::size_t side, std::uint8_t reason = 1) {
    std::array<std::byte, link::kCloseBody> body{std::byte{reason}};
    send(side,
         {.kind = link::Kind::kClose, .epoch = offer[1 - side].epoch, .length = link::kCloseBody},
         body);
  }
  void data(std::size_t side, const Data& d) {
    std::vector<std::byte> packet(d.length, std::byte{d.content});
    const auto packet_class = d.packet_class.value_or(static_cast<std::uint8_t>(d.vc / kLayers));
    store8(&packet[0], d.hop_limit);
    store8(&packet[1], 0);
    store8(&packet[2], static_cast<std::uint8_t>(packet_class << 4 | d.proto));
    store8(&packet[3], 0);
    store16(&packet[4], d.dst);
    store16(&packet[6], d.src.value_or(offer[side].node.value()));
    store16(&packet[8], 0);
    store16(&packet[10], 1);
    for (std::size_t i = 0; i < d.payload.size(); ++i) packet[12 + i] = std::byte{d.payload[i]};
    store32(&packet[packet.size() - 4], link::packet_crc(packet) ^ (d.good ? 0U : 1U));
    send(side,
         {.kind = link::Kind::kData,
          .epoch = offer[1 - side].epoch,
          .length = d.length,
          .seq = Seq{d.seq},
          .ack = Seq{d.ack},
          .vc = Vc{d.vc},
          .credit_vc = d.credit_vc,
          .flags = d.flags,
          .credit = CellCount{d.credit}},
         packet);
  }
  /// The frame before once more, as a way makes copies.
  void copy() { give(last_); }

  /// A bring-up without faults: INITs, then a STATUS of each.
  void up() {
    init(kA, 0);
    init(kB, 0xA1);
    init(kA, 0xB1);
    status(kA, {});
    status(kB, {});
  }

  /// "A L15", "B L10?": side and rule of each, "?" for unless missed. Ends the judgement.
  std::multiset<std::string> found() {
    judge_.finish();
    return std::exchange(found_, {});
  }
  Judge& judge() { return judge_; }
  const SideSummary& sum(std::size_t side, std::size_t link = 0) {
    return judge_.links()[link].judge->sides()[side];
  }
  const std::vector<Finding>& list() const { return list_; }

  static Mac mac(std::size_t side) {
    Mac mac{std::byte{2}};
    mac[4] = side == kA ? std::byte{0xAA} : std::byte{0xBB};
    return mac;
  }
  std::vector<std::byte> tag;  ///< between the MACs and the EtherType

  void give(const std::vector<std::byte>& frame) {
    const std::size_t seen = std::min(captured.value_or(frame.size()), frame.size());
    judge_.frame({++number_, interface, now_, std::span(frame).first(seen), frame.size(), section});
    now_ += std::chrono::microseconds(1);
  }

 private:
  void send(std::size_t side, link::Header header, std::span<const std::byte> body,
            std::size_t length = link::kMinFrame, bool to_nobody = false) {
    if (alter) std::exchange(alter, nullptr)(header);
    std::vector<std::byte> frame(link::kFrameHeader + body.size());
    link::encode_ethernet(to_nobody ? link::kUnknownPeer : mac(1 - side), mac(side),
                          link::kDefaultEtherType, frame.data());
    std::copy(body.begin(), body.end(), frame.begin() + link::kFrameHeader);
    link::encode(header, body, frame.data() + link::kEthernetHeader);
    if (frame.size() < length) frame.resize(length);
    if (spoil) std::exchange(spoil, nullptr)(frame);
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
    last_ = frame;
    give(frame);
  }
  void found(const Finding& finding) override {
    found_.insert(std::string(finding.side == kA ? "A " : "B ") + std::string(finding.rule) +
                  (finding.grade == Grade::kCertain ? "" : "?"));
    list_.push_back(finding);
  }

  Judge judge_;
  std::multiset<std::string> found_;
  std::vector<Finding> list_;
  std::vector<std::byte> last_;
  std::uint64_t number_ = 0;
  Time now_{std::chrono::seconds(1)};
};

using Rules = std::multiset<std::string>;

}  // namespace mtl::conformance::judge
