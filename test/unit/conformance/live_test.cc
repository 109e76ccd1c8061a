// Traces against a device in real time: the core in virtual time, behind a wire with latency and
// jitter, with a clock that drifts, an owner who is slow, and a MAC, nonces, epochs and an
// EtherType of its own. A right device is never told to differ, a wrong one never to conform.
// Rules: L4 L6 L19 L20 P1 P4 C2

#include "conformance/live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "conformance/describe.h"
#include "conformance/trace.h"
#include "live_device.h"

namespace mtl::conformance {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::HasSubstr;
using Kind = LiveVerdict::Kind;

const std::filesystem::path kTraces = MTL_TRACES;
constexpr Duration kTolerance = milliseconds(10);
constexpr Time kStart{std::chrono::hours(5)};
constexpr std::size_t kMostInputs = 60;  // the device is run anew with each

Trace load(const std::string& name) {
  auto trace = load_trace(kTraces / (name + ".json"));
  EXPECT_TRUE(trace) << trace.error().message;
  return *trace;
}

LiveOptions options_of(Duration longest = std::chrono::hours(24)) {
  LiveOptions options;
  options.tolerance = kTolerance;
  options.longest = longest;
  return options;
}

/// How a run went. `sent`: frames to the device, with the trace's.
struct Played {
  LiveVerdict verdict;
  std::vector<std::pair<const TraceFrame*, std::vector<std::byte>>> sent;
  Lateness inputs;
  Lateness frames;
};

/// A wire, and what is wrong with the device.
struct Arrangement {
  Wire wire;
  Wrong wrong;
  std::function<void(Trace&)> configured;  ///< otherwise than told
  std::vector<Stall> known;                ///< stalls that the verdict knows of
  std::vector<std::pair<PortId, Duration>>
      extra;  ///< sends its last frame again, so long after the end
};

class Player {
 public:
  Player(const Trace& trace, const LivePlan& plan, const LiveOptions& options,
         const Arrangement& setup)
      : plan_(plan),
        setup_(setup),
        run_(trace, plan, options, kStart),
        device_(trace, plan.time_scale, kStart, setup.wire, options.ether_type) {
    device_.wrong = setup.wrong;
    if (setup.configured) setup.configured(device_.configuration());
    for (const auto& [port, after] : setup.extra) {
      extra_.push_back({port, kStart + plan.model.end().time_since_epoch() + after});
    }
  }

  Played play() {
    Time now = kStart - milliseconds(20);
    while (!run_.over(now)) step(now);
    Played played;
    played.verdict = run_.verdict(run_.outcome(), false, setup_.known, now);
    played.sent = std::move(sent_);
    played.inputs = run_.inputs_late();
    played.frames = run_.frames_late();
    return played;
  }

 private:
  void step(Time& now) {
    const auto frame = device_.next();
    const Time due = run_.ready() ? std::max(now, run_.due() + late()) : kNever;
    if (!extra_.empty() && extra_.front().second <= now) {
      run_.received(extra_.front().first, last_, extra_.front().second);
      extra_.erase(extra_.begin());
    } else if (frame && frame->second <= std::min(due, now + kTolerance)) {
      now = std::max(now, frame->second);
      if (const auto bytes = device_.take(frame->first, frame->second)) {
        last_ = *bytes;
        run_.received(frame->first, *bytes, frame->second);
      }
    } else if (due <= now + kTolerance) {
      now = due;
      act(now);
    } else {
      now += kTolerance;
    }
  }
  Duration late() const {
    const auto found = setup_.wire.late.find(done_);
    return found == setup_.wire.late.end() ? Duration{} : found->second;
  }
  void act(Time& now) {
    const Time began = now;
    if (run_.next()->frame != nullptr) {
      std::vector<std::byte> bytes = run_.frame(now);
      sent_.emplace_back(&plan_.model.original(*run_.next()->frame), bytes);
      device_.receive(run_.next()->frame->port, std::move(bytes), now);
      now += microseconds(10);
    } else {
      device_.apply(*run_.next()->stimulus, now);
      now += setup_.wire.stimulus;
    }
    run_.done(began, now);
    ++done_;
  }

  const LivePlan& plan_;
  const Arrangement& setup_;
  LiveRun run_;
  LiveDevice device_;
  std::vector<std::pair<const TraceFrame*, std::vector<std::byte>>> sent_;
  std::vector<std::pair<PortId, Time>> extra_;
  std::vector<std::byte> last_;
  std::size_t done_ = 0;
};

Played play(const Trace& trace, const Arrangement& setup, LiveOptions options = options_of()) {
  const auto plan = plan_live(trace, options);
  EXPECT_TRUE(plan) << trace.name << ": " << plan.error().message;
  return plan ? Player(trace, *plan, options, setup).play() : Played{};
}

std::string told(const Trace& trace, const LiveVerdict& verdict) {
  return verdict.why + "\n" +
         (verdict.differences.empty() ? trace.name : report(trace, verdict.differences));
}

/// The traces that can be planned and have few inputs, with their plans.
struct Planned {
  Trace trace;
  std::optional<LivePlan> plan;
};
const std::deque<Planned>& planned() {
  static const std::deque<Planned> all = [] {
    std::deque<Planned> list;
    const auto paths = find_traces(kTraces);
    for (const auto& path : *paths) {
      Planned& one = list.emplace_back(Planned{load(path.stem()), {}});
      if (inputs_of(one.trace).size() <= kMostInputs) {
        auto plan = plan_live(one.trace, options_of());
        if (plan) one.plan.emplace(std::move(*plan));
      }
      if (!one.plan) list.pop_back();
    }
    return list;
  }();
  return all;
}

/// How many conform of a right device; none differs.
std::size_t conform(const Arrangement& setup) {
  std::size_t conform = 0;
  for (const Planned& one : planned()) {
    const Played played = Player(one.trace, *one.plan, options_of(), setup).play();
    EXPECT_NE(played.verdict.kind, Kind::kDiffers) << told(one.trace, played.verdict);
    conform += played.verdict.kind == Kind::kConforms ? 1 : 0;
  }
  return conform;
}

TEST(Live, ARightDeviceConformsBehindAnyWireWithinTheTolerance) {
  ASSERT_GT(planned().size(), 60U);
  EXPECT_EQ(conform({}), planned().size());
  // A long way and a slow owner keep a schedule of many steps waiting for longer than a timer here
  // and there: that is told, and held against nobody.
  for (const std::int64_t drift : {-100, 100}) {
    Arrangement setup;
    setup.wire.latency = milliseconds(1);
    setup.wire.jitter = milliseconds(1);
    setup.wire.drift_ppm = drift;
    setup.wire.stimulus = milliseconds(3);
    setup.wire.seed = static_cast<std::uint32_t>(1000 + drift);
    EXPECT_GE(conform(setup), planned().size() - 2) << drift;
  }
}

TEST(Live, NoWireWithinTheToleranceMakesARightDeviceDiffer) {
  const char* given = std::getenv("MTL_LIVE_SEEDS");
  const unsigned seeds = given == nullptr ? 10 : static_cast<unsigned>(std::atoi(given));
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int most) { return std::uniform_int_distribution(0, most)(random); };
    Arrangement setup;
    setup.wire.latency = microseconds(draw(1200));
    setup.wire.jitter = microseconds(draw(1200));
    setup.wire.drift_ppm = draw(200) - 100;
    // 50 us to 10 s, obeyed at once, at the end, or between.
    setup.wire.stimulus = microseconds(static_cast<int>(50 * std::pow(10.0, draw(530) / 100.0)));
    setup.wire.obeyed = draw(2) == 0 ? 0 : draw(100);
    setup.wire.seed = seed;
    if (draw(2) == 0) setup.wire.late[static_cast<std::size_t>(draw(20))] = milliseconds(draw(40));
    SCOPED_TRACE(seed);
    const std::size_t conforming = conform(setup);
    if (setup.wire.late.empty() && setup.wire.stimulus < kTolerance / 2) {
      EXPECT_GT(conforming, planned().size() / 2);
    }
  }
}

TEST(Live, ASlowOwnerAndLateInputsNeverMakeARightDeviceDiffer) {
  Arrangement slow;
  slow.wire.stimulus = milliseconds(60);
  EXPECT_GT(conform(slow), planned().size() / 2);
  for (const std::size_t input : {1U, 4U, 9U}) {
    for (const auto late : {milliseconds(8), milliseconds(1000)}) {
      Arrangement setup;
      setup.wire.late[input] = late;
      conform(setup);
    }
  }
}

TEST(Live, L4_L6_WhatIsSentToTheDeviceNamesItsNonceEpochAndMac) {
  const Trace trace = load("loss_one");
  const Played played = play(trace, {});
  ASSERT_EQ(played.verdict.kind, Kind::kConforms) << told(trace, played.verdict);
  ASSERT_EQ(played.sent.size(), 18U);
  const auto& [init, init_sent] = played.sent[1];  // which answers
  EXPECT_EQ(load32(init_sent.data() + 34), LiveDevice::nonce(load32(init->bytes.data() + 34)));
  const Mac mac = LiveDevice::mac(PortId{0});
  for (const auto& [frame, sent] : played.sent) {
    EXPECT_EQ(load32(sent.data() + 26), right_header_crc(sent));
    const bool known = frame != played.sent[0].first;  // until then frames go to all (P2)
    EXPECT_EQ(std::equal(mac.begin(), mac.end(), sent.begin()), known);
    if ((load8(sent.data() + 14) & 0x0FU) == 3) continue;
    EXPECT_EQ(load8(sent.data() + 15), LiveDevice::epoch(load8(frame->bytes.data() + 15)));
  }
}

TEST(Live, P1_FramesHaveTheEtherTypeOfTheLinksBothWays) {
  const Trace trace = load("loss_one");
  LiveOptions options = options_of();
  options.ether_type = 0x88B6;
  const Played played = play(trace, {}, options);
  EXPECT_EQ(played.verdict.kind, Kind::kConforms) << told(trace, played.verdict);
  for (const auto& [frame, sent] : played.sent) EXPECT_EQ(load16(sent.data() + 12), 0x88B6);
}

TEST(Live, AWrongCrcStaysWrongByTheSameBits) {
  const Trace trace = load("header_corruption");
  const Played played = play(trace, {});
  ASSERT_EQ(played.verdict.kind, Kind::kConforms) << told(trace, played.verdict);
  std::size_t wrong = 0;
  for (const auto& [frame, sent] : played.sent) {
    if (sent.size() < 30) continue;
    const std::uint32_t bits = load32(frame->bytes.data() + 26) ^ right_header_crc(frame->bytes);
    EXPECT_EQ(load32(sent.data() + 26) ^ right_header_crc(sent), bits);
    wrong += bits != 0 ? 1 : 0;
  }
  EXPECT_EQ(wrong, 4U);  // the trace's counter bad_header_crc
}

TEST(Live, AnEpochThatTheTraceHoldsApartStaysApart) {
  const Trace trace = load("stale");
  const Played played = play(trace, {});
  ASSERT_EQ(played.verdict.kind, Kind::kConforms) << told(trace, played.verdict);
  const std::uint8_t epoch = trace.ports[0].bring_ups[0].epoch;
  std::size_t others = 0;
  for (const auto& [frame, sent] : played.sent) {
    const unsigned kind = load8(frame->bytes.data() + 14) & 0x0FU;
    if (kind == 3 || frame->at < Time{Duration{3000}}) continue;
    const bool is = load8(frame->bytes.data() + 15) == epoch;
    EXPECT_EQ(load8(sent.data() + 15) == LiveDevice::epoch(epoch), is) << "frame " << frame->number;
    others += is ? 0 : 1;
  }
  EXPECT_GT(others, 0U);
}

bool is_kind(const LiveFrame& frame, unsigned kind) {
  return (load8(frame.bytes.data() + 14) & 0x0FU) == kind;
}

/// The first difference, of a device that is wrong so, names this field and rule.
void expect_rule(const std::string& name, const Wrong& wrong, const std::string& field,
                 const std::string& rule) {
  const Trace trace = load(name);
  Arrangement setup;
  setup.wrong = wrong;
  const LiveVerdict verdict = play(trace, setup).verdict;
  ASSERT_EQ(verdict.kind, Kind::kDiffers) << field << ": " << verdict.why;
  const auto& fields = verdict.differences[0].fields;
  EXPECT_TRUE(
      std::any_of(fields.begin(), fields.end(),
                  [&](const FieldDifference& f) { return f.name == field && f.rule == rule; }))
      << field << ": " << told(trace, verdict);
}

/// A device whose frames of this kind have another number of 8, 16 or 32 bits there.
Wrong writes(unsigned kind, std::size_t at, std::size_t bits, std::uint32_t value) {
  return [=](LiveFrame& f) {
    if (!is_kind(f, kind)) return false;
    if (bits == 8) store8(f.bytes.data() + at, static_cast<std::uint8_t>(value));
    if (bits == 16) store16(f.bytes.data() + at, static_cast<std::uint16_t>(value));
    if (bits == 32) store32(f.bytes.data() + at, value);
    return false;
  };
}

TEST(Live, WhatIsWrongIsNotBoundAway) {
  expect_rule("loss_one", writes(3, 34, 32, 5), "peer_nonce", "L6");
  expect_rule("loss_one", writes(3, 44, 8, 0), "INIT epoch", "L4");
  expect_rule("loss_one", writes(3, 30, 32, 0), "nonce", "L4");
  expect_rule("loss_one", writes(1, 15, 8, 1), "epoch", "L3");
  expect_rule("loss_one", writes(1, 30, 16, 1), "allocation[0]", "L20");
  expect_rule("loss_one", writes(0, 18, 16, 5), "seq", "L10, L18");
  int inits = 0;
  const auto later = [&](std::size_t at, std::size_t bits) {
    inits = 0;
    return [&inits, at, bits](LiveFrame& f) {
      return is_kind(f, 3) && ++inits == 2 ? writes(3, at, bits, 99)(f) : false;
    };
  };
  expect_rule("loss_one", later(44, 8), "INIT epoch", "L4");
  expect_rule("loss_one", later(30, 32), "nonce", "L4");
}

TEST(Live, WhatAnInitTellsIsAsConfigured) {
  expect_rule("loss_one", writes(3, 38, 16, 77), "node", "");
  expect_rule("loss_one", writes(3, 42, 16, 1000), "mtu", "");
  expect_rule("loss_one", writes(3, 46, 16, 32), "cell", "");
  expect_rule("loss_one", writes(3, 48, 16, 63), "window", "");
  expect_rule("loss_one", writes(3, 50, 16, 65), "capacity[0]", "");
}

TEST(Live, L4_AnOldEpochOrNonceWhereAFreshOneIsDueDiffers) {
  const Trace trace = load("peer_restart");
  ASSERT_GE(trace.ports[0].bring_ups.size(), 2U);
  const link::BringUp first = trace.ports[0].bring_ups[0];
  expect_rule("peer_restart", writes(3, 44, 8, LiveDevice::epoch(first.epoch)), "INIT epoch", "L4");
  expect_rule("peer_restart", writes(3, 30, 32, LiveDevice::nonce(first.nonce)), "nonce", "L4");
}

TEST(Live, L19_AClockThatJumpsStandsOrIsSlowAndAnEchoOfAnotherTimeDiffer) {
  int statuses = 0;
  std::uint32_t first = 0;
  const auto clock = [&](std::uint32_t numerator) {
    statuses = 0;
    return [&, numerator](LiveFrame& f) {
      if (!is_kind(f, 1)) return false;
      const std::uint32_t t_tx = load32(f.bytes.data() + 46);
      if (++statuses == 1) first = t_tx;
      return writes(1, 46, 32, first + (t_tx - first) / 100 * numerator)(f);
    };
  };
  expect_rule("loss_one", clock(0), "t_tx", "C1");
  expect_rule("loss_one", clock(50), "t_tx", "C1");
  statuses = 0;
  expect_rule(
      "loss_one",
      [&](LiveFrame& f) {
        if (!is_kind(f, 1) || ++statuses != 2) return false;
        return writes(1, 46, 32, load32(f.bytes.data() + 46) + 50'000'000)(f);
      },
      "t_tx", "C1");
  expect_rule(
      "loss_one",
      [](LiveFrame& f) {
        if (!is_kind(f, 1) || load32(f.bytes.data() + 50) == 0) return false;
        return writes(1, 50, 32, load32(f.bytes.data() + 50) - 50'000'000)(f);
      },
      "t_echo", "L19");
}

/// A device that leaves out its frame `index`.
Wrong leaves_out(std::size_t index) {
  return [=](LiveFrame& f) { return f.index == index; };
}

TEST(Live, AFrameThatIsMissingLateOrEarlyDiffers) {
  const Trace trace = load("bringup_dut_first");
  Arrangement setup;
  setup.wrong = leaves_out(1);
  const LiveVerdict missing = play(trace, setup).verdict;
  ASSERT_EQ(missing.kind, Kind::kDiffers) << missing.why;
  for (const auto change : {-20, 20}) {
    Arrangement timers;
    timers.configured = [=](Trace& device) {
      Duration& t = device.ports[0].config.link.timers.init_interval;
      t += change * kTolerance / 10;
    };
    const LiveVerdict verdict = play(trace, timers).verdict;
    ASSERT_EQ(verdict.kind, Kind::kDiffers) << change << verdict.why;
    EXPECT_THAT(verdict.differences[0].what, HasSubstr("came at another time"));
  }
}

/// bringup_dut_first with four stimuli that do nothing, and an end behind them, as this
/// implementation runs it.
Trace with_idle_stimuli() {
  Trace trace = load("bringup_dut_first");
  for (const int ms : {15, 25, 35, 45}) {
    Stimulus stimulus = trace.stimuli.back();
    stimulus.at = Time{milliseconds(ms)};
    stimulus.what = Stimulus::Do::kCarrierUp;
    trace.stimuli.push_back(stimulus);
  }
  trace.end = Time{milliseconds(60)};
  const Outcome outcome = run(trace);
  std::erase_if(trace.frames, [](const TraceFrame& frame) { return !frame.received; });
  for (const SentFrame& sent : outcome.sent[0]) {
    trace.frames.push_back({sent.at, sent.bytes, PortId{0}, false, 0});
  }
  std::stable_sort(trace.frames.begin(), trace.frames.end(),
                   [](const TraceFrame& a, const TraceFrame& b) { return a.at < b.at; });
  for (std::size_t i = 0; i < trace.frames.size(); ++i) trace.frames[i].number = i + 1;
  trace.node_drops = outcome.node_drops;
  trace.port_drops = outcome.port_drops;
  return trace;
}

// The schedule stands still for them, the device's timers do not: what comes behind the end of the
// trace comes within it.
TEST(Live, ASlowOwnerWhoDoesNothingMakesNoRightDeviceDiffer) {
  const Trace trace = with_idle_stimuli();
  for (const int lag : {50, 100, 150, 300, 600, 1000, 3000}) {
    Arrangement setup;
    setup.wire.stimulus = milliseconds(lag);
    setup.wire.obeyed = 0;
    const LiveVerdict verdict = play(trace, setup).verdict;
    EXPECT_NE(verdict.kind, Kind::kDiffers) << lag << "\n" << told(trace, verdict);
  }
}

TEST(Live, TheTimerIsJudgedFromWhatStartsItHoweverSlowTheOwnerIs) {
  const Trace trace = load("bringup_dut_first");
  Arrangement setup;
  setup.wire.stimulus = milliseconds(60);
  EXPECT_EQ(play(trace, setup).verdict.kind, Kind::kConforms);
  setup.configured = [](Trace& device) {
    device.ports[0].config.link.timers.init_interval -= 2 * kTolerance;
  };
  EXPECT_EQ(play(trace, setup).verdict.kind, Kind::kDiffers);
}

TEST(Live, BehindTheEndOnlyWhatTheCoreSendsThereMayCome) {
  const Trace trace = load("loss_one");
  for (const Duration after : {-kTolerance / 2, Duration{kTolerance}}) {
    Arrangement setup;
    setup.extra = {{PortId{0}, after}};
    const LiveVerdict verdict = play(trace, setup).verdict;
    ASSERT_EQ(verdict.kind, Kind::kDiffers) << verdict.why;
    EXPECT_THAT(verdict.differences[0].what, HasSubstr("one frame more"));
  }
}

TEST(Live, TheDifferenceThatEndedTheRunIsTheOneThatIsTold) {
  const Trace trace = load("layer_limit");
  Arrangement setup;
  setup.wrong = [](LiveFrame& f) {
    return f.port == PortId{2} && f.index == 2 ? writes(1, 30, 16, 1)(f) : false;
  };
  const LiveVerdict verdict = play(trace, setup).verdict;
  ASSERT_EQ(verdict.kind, Kind::kDiffers) << verdict.why;
  ASSERT_EQ(verdict.differences.size(), 1U) << told(trace, verdict);
  EXPECT_EQ(verdict.differences[0].port, PortId{2});
}

/// A device that was kept from running, and the verdict knows when, if `known`.
LiveVerdict stalled(const std::string& name, Duration from, Duration length, bool known,
                    const Wrong& wrong = {}) {
  const Trace trace = load(name);
  Arrangement setup;
  setup.wire.stall = {kStart + from, kStart + from + length};
  if (known) setup.known = {*setup.wire.stall};
  setup.wrong = wrong;
  return play(trace, setup).verdict;
}

TEST(Live, AStallExcusesOnlyWhatItCanExplain) {
  const Trace trace = load("bringup_dut_first");
  const auto plan = plan_live(trace, options_of());
  ASSERT_TRUE(plan);
  const Duration second = plan->model.expected()[0][1].at.time_since_epoch() - milliseconds(1);
  EXPECT_EQ(stalled(trace.name, second, milliseconds(15), false).kind, Kind::kDiffers);
  EXPECT_EQ(stalled(trace.name, second, milliseconds(15), true).kind, Kind::kInconclusive);
  // What no time can make wrong.
  EXPECT_EQ(stalled(trace.name, second, milliseconds(15), true, writes(3, 42, 16, 1000)).kind,
            Kind::kDiffers);
  // A stall behind the difference.
  const Duration end = plan->model.end().time_since_epoch();
  EXPECT_EQ(stalled(trace.name, end, milliseconds(15), true, leaves_out(1)).kind, Kind::kDiffers);
}

// A stall makes clocks be read late by no more than it took, and nothing be sent that no right
// device sends.
TEST(Live, AStallExcusesNoClockAndNoContentOfItsOwn) {
  const Trace trace = load("loss_one");
  const Duration early = milliseconds(1);
  const auto clock_off = [](std::uint32_t by) {
    return [=](LiveFrame& f) {
      return is_kind(f, 1) && f.index > 2 ? writes(1, 46, 32, load32(f.bytes.data() + 46) - by)(f)
                                          : false;
    };
  };
  EXPECT_EQ(stalled(trace.name, early, milliseconds(4), true, clock_off(2'000'000'000)).kind,
            Kind::kDiffers);
  EXPECT_EQ(stalled(trace.name, early, milliseconds(4), true, writes(0, 18, 16, 5)).kind,
            Kind::kDiffers);
  EXPECT_EQ(stalled("peer_restart", early, milliseconds(4), true,
                    [](LiveFrame& f) {
                      // L4: the first bring-up's nonce and epoch in the second one, too.
                      if (!is_kind(f, 3)) return false;
                      const link::BringUp first = load("peer_restart").ports[0].bring_ups[0];
                      writes(3, 30, 32, LiveDevice::nonce(first.nonce))(f);
                      return writes(3, 44, 8, LiveDevice::epoch(first.epoch))(f);
                    })
                .kind,
            Kind::kDiffers);
}

TEST(Live, P2_NoDeviceSendsFromAGroupOrFromAnotherPortsAddress) {
  const auto from = [](Mac mac, const std::string& name) {
    Arrangement setup;
    setup.wrong = [=](LiveFrame& f) {
      if (f.port == PortId{0}) std::copy(mac.begin(), mac.end(), f.bytes.begin() + 6);
      return false;
    };
    return play(load(name), setup).verdict;
  };
  Mac group = LiveDevice::mac(PortId{0});
  group[0] = std::byte{3};
  const LiveVerdict verdict = from(group, "bringup_dut_first");
  ASSERT_EQ(verdict.kind, Kind::kDiffers) << verdict.why;
  EXPECT_EQ(verdict.differences[0].fields[0].name, "from MAC");
}

TEST(Live, CablesThatAreTheWrongWayRoundAreSeenByThePortThatAnInitTells) {
  Arrangement setup;
  setup.wrong = [](LiveFrame& f) {
    if (!is_kind(f, 3)) return false;
    return writes(3, 40, 16, f.port == PortId{0} ? 1 : f.port == PortId{1} ? 0 : 2)(f);
  };
  const LiveVerdict verdict = play(load("layer_limit"), setup).verdict;
  ASSERT_EQ(verdict.kind, Kind::kDiffers) << verdict.why;
  const auto& fields = verdict.differences[0].fields;
  EXPECT_TRUE(std::any_of(fields.begin(), fields.end(),
                          [](const FieldDifference& f) { return f.name == "port"; }));
}

TEST(Live, ALateFrameIsToldByHowMuchItWasLate) {
  const Trace trace = load("bringup_dut_first");
  const auto plan = plan_live(trace, options_of());
  ASSERT_TRUE(plan);
  const Duration second = plan->model.expected()[0][1].at.time_since_epoch() - milliseconds(1);
  const LiveVerdict verdict = stalled(trace.name, second, milliseconds(17), false);
  ASSERT_EQ(verdict.kind, Kind::kDiffers) << verdict.why;
  // What is left of the stall, 16 ms, and the way, by the trace's clock.
  const Duration late = verdict.differences[0].at - plan->model.expected()[0][1].frame->at;
  const auto scale = static_cast<std::int64_t>(plan->time_scale);
  EXPECT_GE(late, milliseconds(14) / scale);
  EXPECT_LE(late, milliseconds(18) / scale);
}

TEST(Live, ADeviceMayTellACounterThatIsZero) {
  const Trace trace = load("bringup_peer_first");
  const auto told = read_told(
      "the device",
      boost::json::parse(R"({"counters": {"0": {"malformed": 0, "stale": 2}}})").as_object(),
      trace);
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ((*told->port_drops)[0], (DropCounts{{Drop::kStale, 2}}));
  EXPECT_FALSE(read_told("the device",
                         boost::json::parse(R"({"counters": {"0": {"nosuch": 0}}})").as_object(),
                         trace));
}

TEST(Live, SaysWhyATraceCannotBeRun) {
  const auto wraps = plan_live(load("clock_wrap"), options_of());
  ASSERT_FALSE(wraps);
  EXPECT_THAT(wraps.error().message, HasSubstr("clock goes round"));
  LiveOptions options = options_of(std::chrono::minutes(2));
  const auto takes_long = plan_live(load("error_rate"), options);
  ASSERT_FALSE(takes_long);
  EXPECT_THAT(takes_long.error().message, HasSubstr("the longest allowed is 120 s"));
  options.time_scale = 3;
  const auto near = plan_live(load("loss_one"), options);
  ASSERT_FALSE(near);
  EXPECT_THAT(near.error().message, HasSubstr("needs a greater time scale than 3"));
}

TEST(Live, C2_AFrameOfAStimulusTimeComesBeforeItThoughOneOfTheDeviceStandsBetween) {
  Trace trace = load("loss_one");
  const Time at = trace.stimuli.back().at;
  for (TraceFrame& frame : trace.frames) frame.at = std::min(frame.at, at);
  bool stimulus = false;
  for (const Input& input : inputs_of(trace)) {
    EXPECT_FALSE(stimulus && input.frame != nullptr);
    stimulus = stimulus || (input.stimulus != nullptr && input.at == at);
  }
}

}  // namespace
}  // namespace mtl::conformance
