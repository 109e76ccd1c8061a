#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "switch/event.h"

namespace mtl::switchd {

/// How an echo request ended.
struct EchoOutcome {
  enum class Kind : std::uint8_t { kReply, kTimeout, kHopLimitExceeded, kUnreachable };
  Kind kind = Kind::kTimeout;
  NodeId from;             ///< who replied, or dropped it; 0 for kTimeout
  Duration round_trip{0};  ///< from the submit to the arrival, both on a worker's clock
};

/// The echo requests of this node that wait for an answer (N11), matched by id and number. Sans
/// I/O; the control thread's alone.
class EchoBook {
 public:
  static constexpr std::size_t kMaxWaiting = 4096;
  using Done = std::function<void(const EchoOutcome&)>;

  struct Key {
    std::uint16_t id = 0;
    std::uint16_t number = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// `first_id`: where ids begin; drawn at random, so that an answer meant for an earlier life of
  /// the node is not taken for one of this.
  explicit EchoBook(std::uint16_t first_id) : next_id_(first_id) {}

  /// Notes a request to `dst` that is about to be sent and gives it a key; nullopt when kMaxWaiting
  /// wait. `done` is called once, by answered() or expire().
  std::optional<Key> add(NodeId dst, std::uint16_t number, Time deadline, Done done);
  /// When the request left; until then it has no round trip.
  void sent(Key key, Time at);
  /// The request could not be sent: forgets it without calling `done`.
  void forget(Key key);
  /// A kEchoReply or kEchoError came in; one that fits nothing is ignored. A reply must come from
  /// the node that was asked.
  void answered(const Event& event);
  /// Ends what is overdue with kTimeout.
  void expire(Time now);
  Time next_deadline() const;
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    NodeId dst;
    Time deadline;
    std::optional<Time> sent;
    Done done;
  };
  void finish(std::map<Key, Waiting>::iterator entry, const EchoOutcome& outcome);

  std::map<Key, Waiting> waiting_;
  std::uint16_t next_id_;
};

}  // namespace mtl::switchd
