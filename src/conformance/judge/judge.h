#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "conformance/judge/finding.h"
#include "conformance/judge/frame.h"
#include "conformance/judge/link_judge.h"
#include "conformance/judge/summary.h"
#include "link/codec.h"

/// Judges what passes a tap: whether both sides of each link keep the protocol (docs/conformance.md
/// says which rules a tap can judge). Without I/O: a file, a live tap or a simulator may feed it.
namespace mtl::conformance::judge {

struct Options {
  std::uint16_t ether_type = link::kDefaultEtherType;  ///< P1
  /// The tap shows every frame of each link, once, in the order, at the time and with the bytes
  /// sent.
  bool complete = false;
};

/// Where the frames of one side are judged: on one interface, as a capture on both ends of a bridge
/// has each frame twice. It is that of the side's first frame in a section; a frame to the other
/// side decides it over one to a group, which bridges flood. When the side's frames come by another
/// one alone for a while, it is that one.
struct Tapped {
  enum class By : std::uint8_t { kNothing, kGroupFrame, kUnicastFrame };
  By by = By::kNothing;         ///< kNothing: the side was never seen to send
  std::uint32_t interface = 0;  ///< the last one on which it was judged
  std::uint32_t section = 0;    ///< of that
  Time last{};                  ///< when a frame was judged there
  std::uint32_t elsewhere = 0;  ///< unicast frames since then on others
  bool seen() const { return by != By::kNothing; }
};

/// One link that was found.
struct LinkView {
  std::uint32_t tags = 0;                 ///< VLAN ids, as LinkFrame::tags
  std::array<Tapped, 2> taps{};           ///< of each side
  std::vector<std::uint32_t> interfaces;  ///< all on which a side was judged
  std::unique_ptr<LinkJudge> judge;
};

/// Frames of the EtherType that belong to no link, by why. A link is made by a frame with a right
/// header CRC alone: garbage makes none.
struct Unjudged {
  std::uint64_t damaged = 0;    ///< wrong header CRC
  std::uint64_t cut = 0;        ///< captured too short for the header CRC
  std::uint64_t addresses = 0;  ///< from a group, or from a MAC to itself
  std::uint64_t beyond = 0;     ///< right, and of links beyond Judge::kMostLinks
  std::uint64_t all() const { return damaged + cut + addresses + beyond; }
};

/// One thread. Memory grows with the links (kMostLinks at most) and their windows (2 MiB for the
/// largest), not with frames.
class Judge {
 public:
  static constexpr std::size_t kMostLinks = 1024;

  /// The sink outlives the judge; it is called from within frame() and finish().
  Judge(const Options& options, FindingSink& sink) : options_(options), sink_(sink) {}

  /// The next frame that passed the tap.
  void frame(const TapFrame& tap);
  /// The capture says that it lacks frames of an interface: links that were judged there are not
  /// complete. Before finish().
  void missed_on(std::uint32_t interface);
  /// No more come: tells what waited for that.
  void finish();

  /// In order of appearance.
  const std::vector<LinkView>& links() const { return links_; }
  std::uint64_t frames() const { return frames_; }  ///< given to frame()
  std::uint64_t other() const { return other_; }    ///< of another EtherType
  const Unjudged& unjudged() const { return unjudged_; }
  /// Frames with a right header CRC: those that were judged.
  std::uint64_t judged() const;

 private:
  struct Key {
    std::uint32_t tags = 0;
    std::array<Mac, 2> macs{};  ///< the lower one first
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  using End = std::pair<std::uint32_t, Mac>;  ///< tags and MAC
  /// An INIT that an end sent to nobody in particular (P2).
  struct Call {
    std::vector<std::byte> bytes;
    TapFrame tap;
  };
  static constexpr std::size_t kCallsKept = 64;  ///< of an end that has no link yet, the last ones

  void to_link(const LinkFrame& frame);
  void to_nobody(const LinkFrame& frame);
  bool makes_link(const LinkFrame& frame);
  void give(std::size_t link, const LinkFrame& frame);
  void begin_section(const TapFrame& tap);
  static bool tapped_here(LinkView& link, std::size_t side, const LinkFrame& frame);
  std::optional<std::size_t> find(const LinkFrame& frame);
  std::size_t make(std::uint32_t tags, const Mac& from, const Mac& to);

  Options options_;
  FindingSink& sink_;
  std::vector<LinkView> links_;
  std::unordered_map<Key, std::size_t, KeyHash> by_key_;
  std::map<End, std::vector<std::size_t>> by_end_;
  std::map<End, std::deque<Call>> calls_;  ///< of ends that have no link
  std::optional<std::size_t> last_;        ///< link of the last frame: most often that of the next
  Key last_key_;
  std::uint32_t section_ = 0;
  Time newest_{};  ///< the latest time of a frame in the section
  std::uint64_t frames_ = 0;
  std::uint64_t other_ = 0;
  Unjudged unjudged_;
};

}  // namespace mtl::conformance::judge
