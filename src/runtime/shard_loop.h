#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/ids.h"
#include "base/time.h"
#include "capture/tap.h"
#include "link/frame_out.h"
#include "network/node.h"
#include "phy/impairment.h"
#include "phy/pacer.h"
#include "phy/port.h"
#include "runtime/spsc_ring.h"
#include "runtime/stages.h"

namespace mtl::runtime {

/// A ring of buffers from one shard to another. Made for all buffers that there are, it is never
/// full.
using BufferRing = SpscRing<Buffer*>;

/// What the owner of a shard does in each pass of its own accord.
class LoopOwner {
 public:
  /// Called once a pass when everything that came in has been handled and before frames are pulled:
  /// to release what was delivered, to submit packets. Returns whether it did anything.
  virtual bool work(Time now) = 0;
  /// Asked before the thread sleeps, after the sleep was announced to other threads (Sleeper):
  /// whether something that they left waits for work().
  virtual bool waiting() { return false; }

 protected:
  ~LoopOwner() = default;
};

/// One shard of a node on its ports: carries frames, packets from other shards and the time to the
/// shard, and pulls frames for the ports. No thread, no clock: pass() is called by a worker, or by
/// an endpoint's progress. One thread.
///
/// The order of a pass: every port is received from (one burst each) before any is sent on, since
/// what comes in on one makes frames on others; then rings, timers, the owner; then frames are
/// pulled, by turns, for every port whose link wants to send, as far as the port has room and its
/// pacer lets it. A frame that waits for its pacer is no reason to poll: next_deadline() tells
/// until when. While there is work, a port from which nothing has come for a while is looked at in
/// each eighth pass only, if its medium loses nothing meanwhile: many ports at rest cost those at
/// work little.
class ShardLoop {
 public:
  static constexpr unsigned kBurst = 32;       ///< frames received from a port in a pass
  static constexpr unsigned kPullBudget = 64;  ///< frames pulled for a port in a pass
  static constexpr unsigned kRingBudget = 64;  ///< buffers taken from a ring in a pass
  static constexpr unsigned kRestAfter = 64;   ///< passes in a row in which nothing came in
  static constexpr unsigned kRestFor = 8;      ///< then looked at once in so many passes

  /// `shard` and `owner` (may be nullptr) outlive the loop.
  explicit ShardLoop(network::Shard& shard, LoopOwner* owner = nullptr);
  ShardLoop(const ShardLoop&) = delete;
  ShardLoop& operator=(const ShardLoop&) = delete;

  // Between passes. These may allocate.

  /// Gives port `port` of the shard its medium, which outlives the attachment; the link sees the
  /// medium's carrier in the next pass. What was attached before is detached first.
  void attach(PortId port, phy::Port& medium, Time now);
  /// Takes the medium away: the link loses its carrier (L8). nullptr if none was attached.
  phy::Port* detach(PortId port, Time now);
  /// The medium of a port was cut and joined again between two passes, too fast for a pass to see:
  /// the link loses its carrier now and finds it again in the next pass.
  void cut(PortId port, Time now);
  /// Replaces the impairment of a port (nullptr: none) and returns the former; frames that it held
  /// go on to the link. It stays with the port across attachments.
  std::unique_ptr<phy::Impairment> set_impairment(PortId port,
                                                  std::unique_ptr<phy::Impairment> impairment,
                                                  Time now);
  /// Replaces the pacer of a port (nullptr: none) and returns the former. It stays with the port
  /// across attachments.
  std::unique_ptr<phy::Pacer> set_pacer(PortId port, std::unique_ptr<phy::Pacer> pacer);
  /// A port on its way from one loop to another: its link and all that goes with it.
  struct MovingPort {
    std::unique_ptr<link::Link> link;
    phy::Port* medium = nullptr;
    bool carrier = false;
    std::unique_ptr<phy::Impairment> impairment;
    std::unique_ptr<phy::Pacer> pacer;
  };
  /// Takes a port away, for put() of another loop of the node. Nothing of it changes: the link does
  /// not notice. Shard tells the order of a move; take_in() is part of it.
  MovingPort take(PortId port);
  void put(MovingPort port, Time now);
  /// Takes in all that other shards have passed until now, however much.
  void take_in(Time now);
  /// Puts what passes the loop's ports into `tap` from now on, which outlives that (nullptr: no
  /// more, and nothing of the former one is used again). Which ports, the tap knows; who changes
  /// that calls look_at_tap().
  ///
  /// Frames are seen between a port's medium and its link: those that come in as the link gets
  /// them, behind its impairment, and those that the impairment drops; those that go out as the
  /// medium got them. None has an 802.1Q tag. A medium that gathers frames may find at flush() that
  /// it cannot send one, and counts that: it was put down as sent then.
  void set_tap(capture::Tap* tap);
  void look_at_tap() { renew_ways(); }
  /// A ring from another shard, which outlives the loop.
  void add_ring(BufferRing& ring) { rings_.push_back(&ring); }
  /// Puts `ring` in the place of `former`, into which nobody passes any more, and takes in what is
  /// left there.
  void replace_ring(BufferRing& former, BufferRing& ring, Time now);

  /// One pass; `now` never goes back. Returns whether anything was done, or is left to do at once.
  bool pass(Time now);
  /// Likewise, and adds to stages() where its time went if it did anything. `began`: the ticks from
  /// which on it is the loop's, so what came before the pass is Stage::kWorker's.
  bool measured_pass(Time now, const TickSource& ticks, std::uint64_t began);
  const StageCounters& stages() const { return stages_; }
  /// Forgets what was measured.
  void clear_stages() { stages_ = {}; }

  /// When pass() has something to do even if nothing comes in; kNever if never.
  Time next_deadline() const;
  /// Whether all that may come in rings a doorbell: every attached port has a wake_fd, and no frame
  /// waits for a port without room.
  bool has_bells() const { return all_ring_ && !blocked_; }
  /// Whether another thread has left something: in a ring from another shard, or for the owner.
  bool waiting() const;
  /// Whether a link of an attached port has frames to send.
  bool wants_to_send() const;
  /// Likewise, such that the last pass did not find to be held back by the port's pacer.
  bool wants_a_pass() const;

  /// The media attached now.
  std::span<phy::Port* const> media() const { return media_; }
  phy::Port* medium(PortId port) const { return slots_[port.value()].medium; }
  const phy::Impairment* impairment(PortId port) const {
    return slots_[port.value()].impairment.get();
  }
  const phy::Pacer* pacer(PortId port) const { return slots_[port.value()].pacer.get(); }
  network::Shard& shard() { return shard_; }
  const network::Shard& shard() const { return shard_; }

 private:
  struct Slot {
    PortId id;
    const link::Link* link = nullptr;
    phy::Port* medium = nullptr;
    bool carrier = false;
    std::unique_ptr<phy::Impairment> impairment;
    std::unique_ptr<phy::Pacer> pacer;
    std::uint16_t captured = capture::kNoInterface;  ///< as the tap says
    bool slow_in = false;   ///< impaired or captured: frames do not go straight to the link
    bool slow_out = false;  ///< paced or captured
    bool held = false;      ///< the link wants to send and waits for the pacer
    bool keeps = false;     ///< the medium keeps what comes in until it is taken
    unsigned empty = 0;     ///< passes in a row in which nothing came in, up to kRestAfter
  };

  // With a StageWatch or, at no cost, with NoWatch.
  template <class Watch>
  bool pass_watched(Time now, Watch& watch);
  template <class Watch>
  bool receive(Slot& slot, Time now, Watch& watch);
  bool rests(std::size_t active) const;
  bool look_at_carrier(Slot& slot, Time now);
  void to_link(Slot& slot, Buffer* frame, Time now);
  bool receive_slowly(Slot& slot, std::span<Buffer* const> frames, Time now);
  void impair(Slot& slot, Buffer* frame, Time now);
  unsigned take_ring(BufferRing& ring, std::size_t most, Time now);
  template <class Watch>
  bool take_rings(Time now, Watch& watch);
  template <class Watch>
  bool fire(Time now, Watch& watch);
  template <class Watch>
  bool pull(Slot& slot, Time now, Watch& watch);
  template <class Watch>
  bool pull_slowly(Slot& slot, Time now, Watch& watch);
  void send_slowly(Slot& slot, Time now);
  template <class Watch>
  bool pull_and_flush(Slot& slot, Time now, Watch& watch);
  template <class Watch>
  bool pull_all(Time now, Watch& watch);
  void renew_active();
  void renew_ways();

  network::Shard& shard_;
  LoopOwner* owner_;
  std::vector<Slot> slots_;        ///< by port; of other shards' ports: no link
  std::vector<Slot*> active_;      ///< those with a medium
  std::size_t first_ = 0;          ///< of active_: who is pulled from first, by turns
  std::vector<phy::Port*> media_;  ///< of active_
  std::vector<BufferRing*> rings_;
  unsigned passes_ = 0;
  capture::Tap* tap_ = nullptr;
  bool busy_ = false;  ///< the last pass did something
  bool all_ring_ = true;
  bool plain_ = true;     ///< no slot has an impairment or a pacer
  bool blocked_ = false;  ///< a link wants to send and its port has no room
  link::FrameOut frame_;
  StageCounters stages_;
};

}  // namespace mtl::runtime
