// The judge is right: it finds nothing in what this implementation sends, whatever happens to it on
// the way and whatever a capture lacks, and in the reference traces just what their peer does wrong
// on purpose.

#include "conformance/judge/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "conformance/describe.h"
#include "conformance/trace.h"
#include "sim/draw.h"
#include "sim/random.h"
#include "sim/scenario.h"

namespace mtl::conformance::judge {
namespace {

class Findings final : public FindingSink {
 public:
  void found(const Finding& finding) override { list.push_back(finding); }
  std::vector<Finding> list;
};

std::string text(const std::vector<Finding>& findings) {
  std::string all;
  for (const Finding& f : findings) {
    all += "frame " + std::to_string(f.frame) + ", " + time_text(f.at) + ": link " +
           std::to_string(f.link) + " side " + std::to_string(f.side) + ": " + std::string(f.rule) +
           (f.grade == Grade::kCertain ? "" : " (unless missed)") + ": " + f.why + "\n";
  }
  return all;
}

// ---- the reference traces ----

struct JudgedTrace {
  std::vector<std::string> of_device;  ///< sentences
  std::set<std::string> of_peer;       ///< rules of what is certain
};

JudgedTrace judge_trace(const Trace& trace, bool complete) {
  Findings findings;
  Judge judge({.complete = complete}, findings);
  std::set<Mac> ports;
  for (const TracePort& port : trace.ports) ports.insert(port.config.link.mac);
  for (const TraceFrame& frame : trace.frames) {
    judge.frame({frame.number, 0, frame.at, frame.bytes, frame.bytes.size()});
  }
  judge.finish();
  JudgedTrace result;
  for (const Finding& f : findings.list) {
    const Mac& mac = judge.links()[f.link].judge->sides()[f.side].mac;
    if (ports.contains(mac)) {
      result.of_device.push_back(text({f}));
    } else if (f.grade == Grade::kCertain) {
      result.of_peer.emplace(f.rule);
    }
  }
  return result;
}

std::vector<Trace> load_traces() {
  std::vector<Trace> traces;
  const auto paths = find_traces(MTL_TRACES);
  EXPECT_TRUE(paths) << paths.error().message;
  if (!paths) return traces;
  for (const auto& path : *paths) {
    auto trace = load_trace(path);
    EXPECT_TRUE(trace) << trace.error().message;
    if (trace) traces.push_back(std::move(*trace));
  }
  return traces;
}

TEST(JudgeTraces, FindsNothingInTheDevice) {
  for (const Trace& trace : load_traces()) {
    for (const bool complete : {false, true}) {
      for (const std::string& finding : judge_trace(trace, complete).of_device) {
        ADD_FAILURE() << trace.name << ": " << finding;
      }
    }
  }
}

// In many traces the peer does wrong, so that the device can show what it does then. That much a
// capture shows for certain; each entry was compared with what its trace is about.
TEST(JudgeTraces, FindsWhatThePeerDoesWrongOnPurpose) {
  using Rules = std::set<std::string>;
  const std::map<std::string, Rules> expected{
      {"ack_behind", {"L2", "L10"}},  // acks that go back, and one that comes again behind them
      {"bad_ack", {"L2", "L15", "L17", "L18", "L20"}},  // far too much in every kind of frame
      {"bringup_incompatible", {"L6"}},
      {"bringup_looped", {"L5"}},                   // our own INITs come back
      {"bringup_wrong_peer", {"L6"}},               // and incompatible, too
      {"credit_piggyback", {"L17", "L20", "L23"}},  // limits just 2^15 off, credit in a NACK
      {"credit_stall_status", {"L20"}},             // limits beyond the capacity
      {"dead_interval", {"L3", "L18"}},  // a NACK without a range, a number far ahead taken back
      {"echo", {"N11"}},                 // errors with an id and a number
      {"echo_class_1", {"L17", "L18"}},  // seq 5 was out of credit, and comes again as if new
      {"echo_held", {"L2", "L17", "L18"}},
      {"hop_limit", {"N11"}},
      {"init_padding", {"L6"}},  // an mtu of 63
      {"malformed", {"L2", "L3", "L6", "L15", "L17"}},
      {"nack_lists", {"L15"}},
      {"nack_seq", {"L2", "L15"}},
      {"no_route", {"N3"}},           // to nodes 0 and 65535
      {"occupied_restart", {"L17"}},  // over_credit, and the seq comes again as if new
      {"over_credit", {"L17"}},
      {"poll", {"L20"}},        // more told than the capacity
      {"poll_answer", {"L2"}},  // POLL in kinds that have none
      {"poll_window_full", {"L20"}},
      {"refused_init_in_up", {"L5", "L6"}},
      {"spoofed", {"N1"}},
      {"usable_when_heard", {"L3"}},
      {"wrong_class", {"N1"}},
  };
  for (const Trace& trace : load_traces()) {
    const auto entry = expected.find(trace.name);
    // All frames are there: else what comes after a silence may have gone half round the numbers.
    EXPECT_EQ(judge_trace(trace, true).of_peer, entry == expected.end() ? Rules{} : entry->second)
        << trace.name << ": " << trace.about;
  }
}

// ---- the simulator ----

enum class Tap { kSent, kArrived };

/// Feeds a judge with the frames of a run, of all wires. `missed_ppm` of them the capture lacks.
class RunTap final : public sim::WireTap {
 public:
  RunTap(Judge& judge, Tap tap, std::uint64_t seed, std::uint32_t missed_ppm)
      : judge_(judge), tap_(tap), random_(seed), missed_ppm_(missed_ppm) {}

 private:
  void sent(std::size_t, std::size_t, std::span<const std::byte> frame, Time now) override {
    if (tap_ == Tap::kSent) give(frame, now);
  }
  void arrived(std::size_t, std::size_t, std::span<const std::byte> frame, Time now) override {
    if (tap_ == Tap::kArrived) give(frame, now);
  }
  void give(std::span<const std::byte> frame, Time now) {
    ++number_;
    if (missed_ppm_ != 0 && random_.chance(missed_ppm_)) return;
    judge_.frame({number_, 0, now, frame, frame.size()});
  }

  Judge& judge_;
  Tap tap_;
  sim::Random random_;
  std::uint32_t missed_ppm_;
  std::uint64_t number_ = 0;
};

struct Case {
  Tap tap;
  bool complete;
  std::uint32_t missed_ppm;
};

/// Returns the frames that were judged; `schedule` was drawn with `seed`.
std::uint64_t judge_run(sim::Kind kind, std::uint64_t seed, sim::Schedule schedule,
                        const Case& how) {
  Findings findings;
  Judge judge({.complete = how.complete}, findings);
  RunTap tap(judge, how.tap, seed, how.missed_ppm);
  sim::EventLog off;
  sim::ScenarioOptions options;
  options.tap = &tap;
  sim::run_schedule(std::move(schedule), off, options);
  judge.finish();
  std::erase_if(findings.list,
                [&](const Finding& f) { return !how.complete && f.grade != Grade::kCertain; });
  EXPECT_TRUE(findings.list.empty())
      << name(kind) << " seed " << seed << (how.tap == Tap::kSent ? " sent" : " arrived")
      << (how.complete ? " complete" : "") << " missed " << how.missed_ppm << " ppm\n"
      << text(findings.list);
  return judge.frames();
}

std::uint64_t judge_drawn(sim::Kind kind, std::uint64_t seed, const Case& how) {
  return judge_run(kind, seed, sim::draw_run(kind, seed, true), how);
}

/// The first seeds of pairs and of fabrics, until one fails.
void judge_runs(const Case& how, std::uint64_t pairs, std::uint64_t fabrics) {
  constexpr auto kKinds = static_cast<std::uint64_t>(sim::Kind::kCount);
  std::uint64_t frames = 0;
  for (std::uint64_t seed = 1; seed <= pairs && !testing::Test::HasFailure(); ++seed) {
    frames += judge_drawn(sim::Kind::kPair, seed, how);
  }
  for (std::uint64_t seed = 1; seed <= fabrics && !testing::Test::HasFailure(); ++seed) {
    frames += judge_drawn(static_cast<sim::Kind>(1 + seed % (kKinds - 1)), seed, how);
  }
  EXPECT_GT(frames, (pairs + fabrics) * 10) << "hardly anything was judged";
}

#ifdef MTL_SANITIZED
constexpr std::uint64_t kSlower = 20;  // what they look for each run does alike
#else
constexpr std::uint64_t kSlower = 1;
#endif

std::uint64_t seeds(std::uint64_t usual) {
  return std::getenv("MTL_LONG") == nullptr ? usual / kSlower : usual * 20;
}

TEST(JudgeRuns, FindsNothingInWhatLinksSend) {
  judge_runs({Tap::kSent, true, 0}, seeds(500), seeds(40));
}

TEST(JudgeRuns, FindsNothingCertainInWhatArrives) {
  judge_runs({Tap::kArrived, false, 0}, seeds(500), seeds(40));
}

TEST(JudgeRuns, FindsNothingCertainWhereTheCaptureMissesFrames) {
  judge_runs({Tap::kSent, false, 20'000}, seeds(400), seeds(20));
  judge_runs({Tap::kArrived, false, 300'000}, seeds(400), seeds(20));
}

// Few enough for each wrong core that test/mutation makes: those that it shows to the judge must
// not pass here.
TEST(JudgeSample, FindsNothingInWhatLinksSend) {
  judge_runs({Tap::kSent, true, 0}, 100, 50 / kSlower + 1);
}

// Who gives up a packet at its second failure (L12) shows it where a damaged packet is doubled on
// its way: the runs above seldom have that.
TEST(JudgeSample, FindsNothingWhereDamagedPacketsAreDoubled) {
  std::uint64_t frames = 0;
  for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    sim::Schedule schedule = sim::draw_run(sim::Kind::kPair, seed, false);
    schedule.traffic.bad_crc_ppm = 300'000;
    schedule.background = {.duplicate_ppm = 300'000};
    frames += judge_run(sim::Kind::kPair, seed, std::move(schedule), {Tap::kSent, true, 0});
  }
  EXPECT_GT(frames, 1000U) << "hardly anything was judged";
}

}  // namespace
}  // namespace mtl::conformance::judge
