// A trunk under whatever its lanes do: each lane is a link that queues, sends in order, and hands
// back what is not acknowledged when it dies (L9), as the protocol page describes it.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "network/trunk.h"

namespace mtl::network {
namespace {

struct Packet {
  std::uint8_t flow;
  std::uint32_t number;  ///< in its flow
};

/// What the model of a link holds. Packets are on `wire` until they arrive, in order, and in
/// `unacked` until the acknowledgement comes, too.
struct LaneModel {
  bool up = true;
  std::deque<Packet> queue;
  std::deque<Packet> unacked;
  std::size_t arrived = 0;  ///< of unacked, from its front
};

class TrunkModel final : public LaneQueues {
 public:
  TrunkModel(std::size_t lanes, Spread spread) : lanes_(lanes), trunk_(config(lanes, spread)) {
    for (std::size_t i = 0; i < lanes; ++i) trunk_.set_lane(i, true, kLong);
  }
  std::uint64_t queued_bytes(PortId lane) const override {
    return lanes_[lane.value()].queue.size();
  }

  void submit(std::uint8_t flow) { route({flow, sent_[flow]++}); }
  void send(std::size_t i) {
    LaneModel& lane = lanes_[i];
    if (!lane.up || lane.queue.empty()) return;
    lane.unacked.push_back(lane.queue.front());
    lane.queue.pop_front();
  }
  void arrive(std::size_t i) {
    LaneModel& lane = lanes_[i];
    if (lane.arrived < lane.unacked.size()) take_in(lane.unacked[lane.arrived++]);
  }
  void acknowledge(std::size_t i) {
    LaneModel& lane = lanes_[i];
    if (!lane.up || lane.arrived == 0) return;
    trunk_.gone(lane.unacked.front().flow);
    lane.unacked.pop_front();
    --lane.arrived;
  }
  /// `late`: what was on the wire arrives all the same, after it was sent again elsewhere.
  void lose(std::size_t i, bool late) {
    LaneModel& lane = lanes_[i];
    if (!lane.up || trunk_.usable_lanes() == 1) return;
    lane.up = false;
    trunk_.set_lane(i, false, {});
    std::deque<Packet> back = std::move(lane.unacked);
    if (late)
      flying_[i].insert(flying_[i].end(), back.begin() + static_cast<std::ptrdiff_t>(lane.arrived),
                        back.end());
    back.insert(back.end(), lane.queue.begin(), lane.queue.end());
    handed_back_ += back.size();
    lane = LaneModel{};
    lane.up = false;
    for (const Packet& packet : back) {  // L9 and N9, in one event
      trunk_.gone(packet.flow);
      route(packet);
    }
  }
  /// A frame of a session that ended here may still arrive until the link is up again.
  void arrive_late(std::size_t i) {
    if (flying_[i].empty()) return;
    take_in(flying_[i].front());
    flying_[i].pop_front();
  }
  void rejoin(std::size_t i) {
    if (lanes_[i].up) return;
    flying_[i].clear();  // a new session: frames of the old one are stale (L3)
    lanes_[i].up = true;
    trunk_.set_lane(i, true, kLong);
  }
  /// Everything runs empty.
  void drain() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      while (!lanes_[i].queue.empty()) send(i);
      while (lanes_[i].arrived < lanes_[i].unacked.size()) arrive(i);
      while (lanes_[i].arrived != 0) acknowledge(i);
    }
  }
  void check_all_there() const {
    for (const auto& [flow, count] : sent_) {
      const auto came = came_.find(flow);
      const std::size_t there = came == came_.end() ? 0 : came->second.size();
      RC_ASSERT(there == count);
    }
  }
  std::size_t handed_back() const { return handed_back_; }
  const Trunk& trunk() const { return trunk_; }

 private:
  static constexpr Trunk::Longest kLong{64, 64, 64, 64, 64, 64, 64, 64};
  static TrunkConfig config(std::size_t lanes, Spread spread) {
    TrunkConfig config{{}, spread};
    for (std::size_t i = 0; i < lanes; ++i)
      config.lanes.emplace_back(static_cast<std::uint16_t>(i));
    return config;
  }
  void route(Packet packet) {
    LaneModel& lane = lanes_[trunk_.take(packet.flow, *this).value()];
    RC_ASSERT(lane.up);  // N7
    lane.queue.push_back(packet);
  }
  /// At the far end: first copies come in order.
  void take_in(Packet packet) {
    std::set<std::uint32_t>& came = came_[packet.flow];
    if (came.contains(packet.number)) return;
    const std::uint32_t next = came.empty() ? 0 : *came.rbegin() + 1;
    RC_ASSERT(packet.number == next);
    came.insert(packet.number);
  }

  std::vector<LaneModel> lanes_;
  Trunk trunk_;
  std::map<std::size_t, std::deque<Packet>> flying_;  ///< of a lane that is down here
  std::map<std::uint8_t, std::uint32_t> sent_;
  std::map<std::uint8_t, std::set<std::uint32_t>> came_;
  std::size_t handed_back_ = 0;
};

/// Rules: N7 N9
void orderly(Spread spread) {
  std::size_t cases = 0, handed_back = 0, moves = 0, forced = 0;
  EXPECT_TRUE(rc::check([&] {
    ++cases;
    const auto lanes = *rc::gen::inRange<std::size_t>(2, 6);
    TrunkModel model(lanes, spread);
    // Few flows and many more steps than lanes, so that much is under way when a lane goes.
    const auto steps =
        *rc::gen::container<std::vector<std::uint16_t>>(400, rc::gen::arbitrary<std::uint16_t>());
    for (const std::uint16_t step : steps) {
      const std::size_t lane = (step >> 8) % lanes;
      const unsigned what = step & 0xF;
      if (what < 5) model.submit(static_cast<std::uint8_t>((step >> 4) % 8));
      if (what >= 5 && what < 8) model.send(lane);
      if (what >= 8 && what < 11) model.arrive(lane);
      if (what == 11) model.acknowledge(lane);
      // Now and then all runs empty: only then may a flow go back to a lane that came back.
      if (what == 12) (step & 0x10) != 0 ? model.drain() : model.acknowledge(lane);
      if (what == 13) model.lose(lane, (step & 0x10) != 0);
      if (what == 14) model.arrive_late(lane);
      if (what == 15) model.rejoin(lane);
    }
    model.drain();
    model.check_all_there();
    handed_back += model.handed_back();
    moves += model.trunk().moves();
    forced += model.trunk().forced_moves();
  }));
  // That it happened at all, however many cases were asked for: else the property shows nothing.
  EXPECT_GT(handed_back, 10 * cases);
  EXPECT_GT(forced, cases);
  EXPECT_GT(moves, forced + cases);
}

TEST(TrunkProperty, FlowSpreadKeepsOrderAndLosesNothing) {
  orderly(Spread::kFlow);
}

TEST(TrunkProperty, ShortestQueueSpreadKeepsOrderAndLosesNothing) {
  orderly(Spread::kShortestQueue);
}

}  // namespace
}  // namespace mtl::network
