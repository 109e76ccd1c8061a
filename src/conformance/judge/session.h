#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/serial.h"
#include "base/time.h"
#include "conformance/judge/finding.h"
#include "conformance/judge/frame.h"
#include "conformance/judge/summary.h"
#include "link/codec.h"

namespace mtl::conformance::judge {

/// One session of a link (from UP to UP), both directions, as far as a tap can know it.
///
/// Two kinds of conclusions. Frames say in what order they were made: the number of DATA that their
/// sender had sent before (L10, L18) never falls, whatever the path did to their order. What
/// contradicts that order, or itself, is certain. What needs every frame, or the tap's own order,
/// is found "unless the capture missed frames".
class Session {
 public:
  /// What the INITs of both sides said.
  using Terms = std::array<link::Init, 2>;

  /// Seen from its bring-up on: everything starts at 0.
  Session(const Terms& terms, Reporter& reporter, std::array<SideSummary, 2>& sums);
  /// Seen from somewhere in its middle.
  Session(Reporter& reporter, std::array<SideSummary, 2>& sums);

  /// A session frame with right header CRC and legal shape, sent by `side`. `sound`: judge_form()
  /// said so.
  void frame(std::size_t side, const LinkFrame& frame, bool sound);
  /// A second peer was answered in the same bring-up: frames of two sessions cannot be told apart.
  void tangle();
  /// Numbers may have gone round unseen: what is known of them is known no longer.
  void lose_track();

  /// Whether `side` has shown that it heard the other (L7).
  bool heard(std::size_t side) const { return ways_[side].heard; }
  bool closed(std::size_t side) const { return ways_[side].closed; }
  bool whole() const { return whole_; }

 private:
  /// A DATA of the window.
  struct Slot {
    Time seen_at{};                    ///< the last copy
    std::uint32_t network_header = 0;  ///< CRC over it: hop limit, class and so on
    std::uint32_t packet_crc = 0;      ///< as the packet carries it
    std::uint32_t first_crc = 0;       ///< header CRC of the frame that was sent first
    std::uint16_t length = 0;
    std::uint16_t cells = 0;
    std::uint16_t told_seq = 0;  ///< with `told`: the other side said "expecting this"
    std::uint8_t vc = 0;
    std::uint8_t bad = 0;  ///< copies with a wrong packet CRC
    bool seen = false;
    bool first = false;   ///< first_crc holds
    bool good = false;    ///< a copy had a right packet CRC, or one that could not be checked
    bool right = false;   ///< packet_crc is right
    bool listed = false;  ///< a NACK asked for it
    bool told = false;
  };
  /// A value that its side tells again and again, and that never goes back. `at`: the fewest DATA
  /// that had been sent when it was first seen.
  template <class T>
  struct Rising {
    T value{};
    Seq at{};
    std::uint64_t frame = 0;
    bool known = false;
  };
  /// The frame that was made behind more DATA than any other seen, and the least ack of such.
  struct Newest {
    Seq at{};
    Seq ack{};
    std::uint64_t frame = 0;
    bool known = false;
  };
  /// What one side sends.
  struct Way {
    // Its DATA.
    bool begun = false;  ///< `next` is known
    Seq next{};          ///< of its next new DATA
    std::vector<Slot> slots;
    std::array<CellCount, kVcs> used{};  ///< cells of DATA sent, a lower bound
    bool acks_begun = false;
    Seq acked{};                                  ///< the furthest ack that the other side told
    std::array<std::uint32_t, kVcs> delivered{};  ///< cells of its DATA before `acked`
    std::uint32_t unseen_delivered = 0;           ///< DATA before `acked` that were never seen
    // What it tells.
    Rising<Seq> ack;
    std::array<Rising<CellCount>, kVcs> allocation;
    std::array<CellCount, kVcs> told{};  ///< the furthest allocations, for bits in told_known
    std::uint8_t told_known = 0;
    std::optional<Seq> last_ack;  ///< the furthest
    std::uint32_t behind = 0;     ///< acks in a row that were behind it
    Newest newest;
    std::uint32_t t_tx = 0;  ///< of its last STATUS
    Time t_tx_at{};
    Duration t_tx_apart{0};  ///< the longest time between two STATUS
    bool has_t_tx = false;
    std::uint32_t ahead = 0;  ///< echoes in a row of the other side's future
    Time ahead_of{};          ///< STATUS of the other side before the last of them
    bool echoed = false;
    bool heard = false;
    bool closed = false;
    std::uint64_t frames = 0;
    Time last{};
  };

  static Slot& slot(Way& way, Seq seq) { return way.slots[seq.value() & (way.slots.size() - 1)]; }
  static bool in_slots(const Way& way, Seq seq);
  const link::Init* terms(std::size_t side) const { return terms_ ? &(*terms_)[side] : nullptr; }
  std::uint16_t window_of(std::size_t receiver) const;
  std::uint16_t cells_of(std::size_t receiver, std::uint16_t length) const;

  bool doubtful(std::size_t side) const { return reporter_.faults(side) != faults_[side]; }
  template <class Why>
  void certain(std::size_t side, std::string_view rule, Why&& why);
  template <class Why>
  void unless_missed(std::size_t side, std::string_view rule, Why&& why);

  void begin(std::size_t side, Seq next);
  bool moved_unseen(std::size_t side) const;
  void miss(std::size_t side, Seq to);
  static void advance(Way& way, Slot& next);

  void follow(std::size_t side, Seq made_at, bool ordered);
  void follow_order(std::size_t side, Seq made_at);
  void follow_ack(std::size_t side);
  void acknowledge(std::size_t side);
  void accept(std::size_t side, const Slot& slot);
  void follow_allocation(std::size_t side, std::size_t vc, CellCount told, Seq made_at,
                         bool ordered);
  void bound_allocation(std::size_t side, std::size_t vc, CellCount told);

  void on_data(std::size_t side);
  void sent_next(std::size_t side);
  void sent_behind(std::size_t side);
  void sent_again(std::size_t side);
  void fill(std::size_t side, Slot& slot);
  void see_copy(std::size_t side, Slot& slot);
  void compare(std::size_t side, const Slot& slot);
  void judge_cause(std::size_t side, const Slot& slot);
  void judge_size(std::size_t side);
  void judge_room(std::size_t side);

  void on_control(std::size_t side);
  void on_status(std::size_t side);
  void on_echo(std::size_t side, std::uint32_t t_echo);
  void on_nack(std::size_t side);
  void judge_last(std::size_t side, std::size_t ranges);
  void list(std::size_t side, Seq first, std::uint16_t count);

  Reporter& reporter_;
  std::array<SideSummary, 2>& sums_;
  std::optional<Terms> terms_;
  bool whole_;  ///< nothing of it is unknown: seen from its start, and track never lost
  std::array<Way, 2> ways_;
  /// Of each side, when the session began. Who has done wrong since then may have misled the other
  /// one, or us: what the other does is then judged no further than it stands by itself.
  std::array<std::uint64_t, 2> faults_;
  const LinkFrame* frame_ = nullptr;  ///< being judged
  bool sound_ = true;
};

}  // namespace mtl::conformance::judge
