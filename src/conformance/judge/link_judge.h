#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "conformance/judge/finding.h"
#include "conformance/judge/frame.h"
#include "conformance/judge/session.h"
#include "conformance/judge/summary.h"
#include "link/codec.h"

namespace mtl::conformance::judge {

/// One link: who of its sides brought up what, and which session a frame belongs to.
class LinkJudge {
 public:
  LinkJudge(std::size_t link, const std::array<Mac, 2>& macs, FindingSink& sink, bool complete);
  LinkJudge(const LinkJudge&) = delete;
  LinkJudge& operator=(const LinkJudge&) = delete;

  /// A frame that `side` sent.
  void frame(std::size_t side, const LinkFrame& frame);
  /// It was seen on another interface of the capture, where it is not judged.
  void seen_elsewhere(std::size_t side) { ++sums_[side].elsewhere; }
  /// A side is judged on another interface from now on; frames of it may not have been judged.
  void moved();
  /// The capture says that it lacks frames, which may be this link's.
  void missed() { hole_ = true; }
  /// The capture was interrupted. `earlier`: what comes now was captured before, so that it begins
  /// anew, as if nothing had been seen.
  void interrupted(bool earlier);
  /// No more frames come.
  void finish();

  const std::array<SideSummary, 2>& sides() const { return sums_; }
  std::uint64_t sessions() const { return sessions_; }
  /// The capture has shown that it lacks frames (those of a whole side, too), has some twice,
  /// damaged or not in the order sent.
  bool incomplete() const;
  const std::vector<RuleCount>& findings(std::size_t side) const { return reporter_.counts(side); }

 private:
  /// Nonces: an INIT may come, and be answered, many bring-ups later.
  static constexpr std::size_t kRemembered = 64;

  /// What a side's INITs say since its last fresh nonce.
  struct BringUp {
    bool known = false;
    bool changed = false;  ///< it has offered different things
    link::Init init;       ///< the last one
    std::uint64_t frame = 0;
    Time last{};                                    ///< its last INIT
    std::array<std::uint32_t, kRemembered> told{};  ///< peer nonces, the last ones
    std::size_t told_count = 0;                     ///< how many different ones in all
    bool has_told(std::uint32_t nonce) const;
    void tell(std::uint32_t nonce);
  };
  struct Side {
    BringUp now;
    std::array<std::uint32_t, kRemembered> past{};  ///< nonces of earlier bring-ups
    std::array<std::uint8_t, kRemembered> past_epochs{};
    std::size_t past_count = 0;
    std::optional<std::uint32_t> refused;  ///< nonce of its last INIT that no peer may take
    std::optional<std::uint8_t> epoch;     ///< of frames to it, in a session without a bring-up
    // Frames that it sent in a row with an epoch that belongs to nothing known.
    std::uint8_t strange_epoch = 0;
    std::uint32_t strangers = 0;
    // Frames of legal shape whose CRC was wrong, as long as none was right (DATA, others).
    std::array<std::uint32_t, 2> all_wrong{};
    std::uint32_t packets_wrong = 0;
    std::uint32_t errors = 0;  ///< N11, since `second`
    Time second{};
  };
  struct Pair {
    std::array<std::uint32_t, 2> nonces{};
    std::array<std::uint8_t, 2> epochs{};
    friend bool operator==(const Pair&, const Pair&) = default;
  };

  void count_wrong(std::size_t side, const LinkFrame& frame);
  void on_init(std::size_t side, const LinkFrame& frame);
  void begin_bring_up(std::size_t side, const link::Init& init, const LinkFrame& frame);
  void judge_peer_nonce(std::size_t side, const link::Init& init, const LinkFrame& frame);
  void judge_init_length(std::size_t side, const link::Init& init, const LinkFrame& frame);
  void on_session(std::size_t side, const LinkFrame& frame);
  Session* session_of(std::size_t side, const LinkFrame& frame);
  Session* begin_session(std::size_t side, const LinkFrame& frame);
  Session* unknown_session(std::size_t side, const LinkFrame& frame);
  void on_packet(std::size_t side, const LinkFrame& frame);
  bool past(std::size_t side, std::uint32_t nonce) const;
  void judge_epoch(std::size_t side, const LinkFrame& frame);

  Reporter reporter_;
  std::array<SideSummary, 2> sums_;
  std::array<Side, 2> sides_;
  std::unique_ptr<Session> session_;
  Pair pair_;  ///< of session_, if seen from its start
  bool has_pair_ = false;
  std::uint64_t sessions_ = 0;
  bool hole_ = false;  ///< frames were not seen, or not judged, in between
};

}  // namespace mtl::conformance::judge
