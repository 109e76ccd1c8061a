// The replayer can fail: whatever a trace says is changed in memory, one thing at a time, and the
// replay must say so, and where.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "conformance/replay.h"
#include "conformance/trace.h"

namespace mtl::conformance {
namespace {

using Kind = Difference::Kind;

constexpr Duration kTick{1};

Trace load(const std::string& name) {
  auto trace = load_trace(std::filesystem::path(MTL_TRACES) / (name + ".json"));
  if (!trace) {
    ADD_FAILURE() << trace.error().message;
    return {};
  }
  EXPECT_TRUE(replay(*trace).empty()) << "the unchanged trace must conform";
  return std::move(*trace);
}

/// Places, in the trace's frames, of those that the device under test sends.
std::vector<std::size_t> sent_frames(const Trace& trace) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    if (!trace.frames[i].received) places.push_back(i);
  }
  EXPECT_FALSE(places.empty());
  return places;
}

/// Replays and expects `kind` first; the difference for further checks.
Difference first_of(const Trace& trace, Kind kind) {
  const auto differences = replay(trace);
  if (differences.empty()) {
    ADD_FAILURE() << trace.name << " conforms, though it was changed";
    return {};
  }
  EXPECT_EQ(differences.front().kind, kind) << report(trace, differences);
  return differences.front();
}

/// Frames sent on the port of `place` before it.
std::size_t index_on_port(const Trace& trace, std::size_t place) {
  return static_cast<std::size_t>(std::count_if(
      trace.frames.begin(), trace.frames.begin() + static_cast<std::ptrdiff_t>(place),
      [&](const TraceFrame& f) { return !f.received && f.port == trace.frames[place].port; }));
}

void expect_frame(const Trace& original, std::size_t place, const Difference& difference) {
  EXPECT_EQ(difference.frame, original.frames[place].number);
  EXPECT_EQ(difference.port, original.frames[place].port);
  EXPECT_EQ(difference.index, index_on_port(original, place));
  EXPECT_FALSE(difference.detail.empty());
}

TEST(Sensitivity, C3_EveryByteOfEveryFrameSent) {
  const Trace trace = load("loss_one");
  for (const std::size_t place : sent_frames(trace)) {
    for (std::size_t at = 0; at < trace.frames[place].bytes.size(); ++at) {
      Trace changed = trace;
      changed.frames[place].bytes[at] ^= std::byte{0x10};
      const Difference difference = first_of(changed, Kind::kFrame);
      expect_frame(trace, place, difference);
      EXPECT_EQ(difference.at, trace.frames[place].at);
    }
  }
}

TEST(Sensitivity, C3_PaddingMissingOrTooLong) {
  const Trace trace = load("loss_one");
  for (const std::size_t place : sent_frames(trace)) {
    for (const int by : {-1, 1}) {
      Trace changed = trace;
      auto& bytes = changed.frames[place].bytes;
      bytes.resize(static_cast<std::size_t>(static_cast<std::ptrdiff_t>(bytes.size()) + by));
      expect_frame(trace, place, first_of(changed, Kind::kFrame));
    }
  }
}

TEST(Sensitivity, C3_TimeOfEveryFrameSent) {
  const Trace trace = load("loss_one");
  for (const std::size_t place : sent_frames(trace)) {
    for (const Duration by : {kTick, -kTick}) {
      Trace changed = trace;
      changed.frames[place].at += by;
      const Difference difference = first_of(changed, Kind::kFrame);
      expect_frame(trace, place, difference);
      EXPECT_EQ(difference.at, std::min(trace.frames[place].at, changed.frames[place].at));
      EXPECT_NE(difference.what.find("another time"), std::string::npos) << difference.what;
    }
  }
}

TEST(Sensitivity, C3_FrameThatTheTraceDoesNotHave) {
  const Trace trace = load("loss_one");
  const std::size_t last = sent_frames(trace).back();
  Trace changed = trace;
  changed.frames.erase(changed.frames.begin() + static_cast<std::ptrdiff_t>(last));
  const Difference difference = first_of(changed, Kind::kFrame);
  EXPECT_EQ(difference.frame, 0U);  // no frame of the capture
  EXPECT_EQ(difference.index, index_on_port(trace, last));
  EXPECT_EQ(difference.at, trace.frames[last].at);
}

TEST(Sensitivity, C3_FrameThatNeverComes) {
  const Trace trace = load("loss_one");
  Trace changed = trace;
  const TraceFrame& last = trace.frames[sent_frames(trace).back()];
  changed.frames.push_back(last);
  changed.frames.back().at = trace.end;
  changed.frames.back().number = trace.frames.size() + 1;
  const Difference difference = first_of(changed, Kind::kFrame);
  EXPECT_EQ(difference.frame, trace.frames.size() + 1);
  EXPECT_EQ(difference.port, last.port);
  EXPECT_EQ(difference.at, trace.end);
}

TEST(Sensitivity, C3_PortOfAFrameSent) {
  const Trace trace = load("switch_forward");
  const std::size_t place = sent_frames(trace).back();
  Trace changed = trace;
  changed.frames[place].port = PortId{
      static_cast<std::uint16_t>((changed.frames[place].port.value() + 1) % trace.ports.size())};
  const auto differences = replay(changed);
  const auto frames = std::count_if(differences.begin(), differences.end(),
                                    [](const Difference& d) { return d.kind == Kind::kFrame; });
  EXPECT_EQ(frames, 2) << "one port has a frame too many, another one too few";
}

TEST(Sensitivity, C3_OrderOfFramesOfOneInstant) {
  const Trace trace = load("bringup_peer_first");
  bool found = false;
  for (std::size_t i = 1; i < trace.frames.size(); ++i) {
    const TraceFrame& a = trace.frames[i - 1];
    const TraceFrame& b = trace.frames[i];
    if (a.received || b.received || a.port != b.port || a.at != b.at || a.bytes == b.bytes)
      continue;
    found = true;
    Trace changed = trace;
    std::swap(changed.frames[i - 1].bytes, changed.frames[i].bytes);
    expect_frame(trace, i - 1, first_of(changed, Kind::kFrame));
  }
  EXPECT_TRUE(found) << "the trace has no two frames at one instant any more: choose another";
}

TEST(Sensitivity, C3_EveryDelivery) {
  const Trace trace = load("loss_one");
  ASSERT_FALSE(trace.deliveries.empty());
  for (std::size_t i = 0; i < trace.deliveries.size(); ++i) {
    std::vector<Trace> variants(5, trace);
    variants[0].deliveries[i].at += kTick;
    variants[1].deliveries[i].port = kNoPort;
    variants[2].deliveries[i].vc = Vc{7};
    variants[3].deliveries[i].packet.back() ^= std::byte{1};
    variants[4].deliveries.erase(variants[4].deliveries.begin() + static_cast<std::ptrdiff_t>(i));
    for (const Trace& changed : variants) {
      const Difference difference = first_of(changed, Kind::kDelivery);
      EXPECT_EQ(difference.index, i);
      EXPECT_EQ(difference.at, trace.deliveries[i].at);
    }
  }
}

TEST(Sensitivity, C3_DeliveryThatNeverComes) {
  Trace trace = load("loss_one");
  const std::size_t count = trace.deliveries.size();
  trace.deliveries.push_back(trace.deliveries.back());
  trace.deliveries.back().at = trace.end;
  const Difference difference = first_of(trace, Kind::kDelivery);
  EXPECT_EQ(difference.index, count);
  EXPECT_EQ(difference.at, trace.end);
}

TEST(Sensitivity, C4_Digest) {
  const Trace trace = load("delivered_digest");
  ASSERT_TRUE(trace.digest);
  Trace changed = trace;
  changed.digest->sha256[31] ^= std::byte{1};
  EXPECT_EQ(first_of(changed, Kind::kDelivery).at, trace.end);
  changed = trace;
  --changed.digest->count;
  EXPECT_EQ(first_of(changed, Kind::kDelivery).at, trace.end);
}

TEST(Sensitivity, C3_CounterOfAPort) {
  const Trace trace = load("duplicates");
  ASSERT_TRUE(trace.port_drops[0].contains(Drop::kDuplicate));
  std::vector<Trace> variants(3, trace);
  ++variants[0].port_drops[0][Drop::kDuplicate];
  variants[1].port_drops[0].erase(Drop::kDuplicate);  // counted and not listed
  variants[2].port_drops[0][Drop::kStale] = 1;        // listed and not counted
  for (const Trace& changed : variants) {
    const Difference difference = first_of(changed, Kind::kCounter);
    EXPECT_EQ(difference.port, PortId{0});
  }
  EXPECT_NE(first_of(variants[2], Kind::kCounter).what.find("stale"), std::string::npos);
}

TEST(Sensitivity, C3_CounterOfTheNode) {
  const Trace trace = load("no_route");
  ASSERT_TRUE(trace.node_drops.contains(Drop::kNoRoute));
  std::vector<Trace> variants(3, trace);
  --variants[0].node_drops[Drop::kNoRoute];
  variants[1].node_drops.clear();
  variants[2].node_drops[Drop::kSpoofed] = 1;
  for (const Trace& changed : variants) {
    EXPECT_EQ(first_of(changed, Kind::kCounter).port, std::nullopt);
  }
}

TEST(Sensitivity, C2_EveryDataFrameReceivedMatters) {
  const Trace trace = load("loss_one");
  std::size_t data = 0;
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    const TraceFrame& frame = trace.frames[i];
    const auto kind = static_cast<link::Kind>(frame.bytes[link::kEthernetHeader] & std::byte{0x0F});
    if (!frame.received || kind != link::Kind::kData) continue;
    ++data;
    Trace changed = trace;
    changed.frames.erase(changed.frames.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(replay(changed).empty()) << "without frame " << frame.number;
  }
  EXPECT_GT(data, 0U);
}

TEST(Sensitivity, C2_EveryStimulusMatters) {
  for (const char* name : {"carrier_loss", "disable", "transfer_out"}) {
    const Trace trace = load(name);
    for (std::size_t i = 0; i < trace.stimuli.size(); ++i) {
      Trace changed = trace;
      changed.stimuli.erase(changed.stimuli.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(replay(changed).empty()) << name << " without stimulus " << i;
      if (trace.stimuli[i].what != Stimulus::Do::kSubmit) continue;
      changed = trace;
      changed.stimuli[i].at += kTick;
      EXPECT_FALSE(replay(changed).empty()) << name << " with stimulus " << i << " later";
    }
  }
}

TEST(Sensitivity, C4_ReleaseMatters) {
  const Trace trace = load("occupied_restart");
  ASSERT_FALSE(trace.consume);
  Trace changed = trace;
  changed.consume = true;
  EXPECT_FALSE(replay(changed).empty());
  changed = trace;
  std::erase_if(changed.stimuli,
                [](const Stimulus& s) { return s.what == Stimulus::Do::kRelease; });
  EXPECT_LT(changed.stimuli.size(), trace.stimuli.size());
  EXPECT_FALSE(replay(changed).empty());
}

TEST(Sensitivity, L4_MoreBringUpsThanListed) {
  Trace trace = load("peer_restart");
  ASSERT_GE(trace.ports[0].bring_ups.size(), 2U);
  trace.ports[0].bring_ups.pop_back();
  const auto differences = replay(trace);
  const auto told = std::count_if(differences.begin(), differences.end(), [](const Difference& d) {
    return d.kind == Kind::kReplayer && d.what.find("bring-up") != std::string::npos;
  });
  EXPECT_EQ(told, 1) << (differences.empty() ? "conforms" : report(trace, differences));
}

TEST(Sensitivity, ConfigurationOfTheDeviceMatters) {
  const Trace trace = load("loss_one");
  std::vector<Trace> variants(3, trace);
  variants[0].ports[0].bring_ups[0].nonce ^= 1;
  variants[1].ports[0].config.link.capacity[7] ^= 1;
  variants[2].ports[0].config.link.timers.ack_delay += kTick;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    EXPECT_FALSE(replay(variants[i]).empty()) << "variant " << i;
  }
}

}  // namespace
}  // namespace mtl::conformance
