#include "tools/mtreplay/judge.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "conformance/capture_reader.h"
#include "conformance/hex.h"
#include "conformance/judge/judge.h"
#include "conformance/time_sorter.h"
#include "tools/interrupt.h"
#include "tools/mtreplay/judge_report.h"
#include "tools/mtreplay/output.h"
#include "tools/mtreplay/run.h"
#include "tools/standard_streams.h"

namespace mtl::tools {
namespace {

using conformance::CaptureReader;
using conformance::CaptureRecord;
using conformance::TimeSorter;
using conformance::judge::Finding;
using conformance::judge::Grade;
using conformance::judge::Judge;
using conformance::judge::LinkView;
using conformance::judge::SideSummary;

/// Keeps what the judge tells of the sides that were asked for. It tells a few findings of each
/// rule, side and link, but links may be many.
class Findings final : public conformance::judge::FindingSink {
 public:
  static constexpr std::size_t kMost = 10'000;

  Findings(const JudgeOptions& options, const std::set<Mac>& only)
      : judge({options.ether_type, options.complete}, *this),
        only_(only),
        complete_(options.complete) {}

  void found(const Finding& finding) override {
    const Mac& mac = judge.links()[finding.link].judge->sides()[finding.side].mac;
    if (!only_.empty() && !only_.contains(mac)) return;
    if (finding.grade == Grade::kCertain || complete_) broken = true;
    if (list.size() < kMost) {
      list.push_back(finding);
    } else {
      ++left_out;
    }
  }

  Judge judge;
  std::vector<Finding> list;
  std::uint64_t left_out = 0;  ///< findings beyond kMost
  bool broken = false;         ///< one of all findings decides the exit status

 private:
  const std::set<Mac>& only_;
  bool complete_;
};

Result<std::set<Mac>> parse_macs(const std::vector<std::string>& texts) {
  std::set<Mac> macs;
  for (const std::string& text : texts) {
    const auto mac = conformance::mac_from_text(text);
    if (!mac) return Error{fmt::format("--only {}: no MAC such as 02:00:00:00:dd:00", text)};
    macs.insert(*mac);
  }
  return macs;
}

/// What is read while it is written, as by tcpdump. Ctrl-C ends both programs, and what was read is
/// to be judged: the writer has kGrace to write what it holds; a second signal ends that.
class StandardInput {
 public:
  /// False: no more is to be read.
  bool wait(int file) {
    for (;;) {
      const auto now = steady_clock::now();
      if (limit_ && now >= *limit_) return false;
      pollfd readable{file, POLLIN, 0};
      const auto time = limit_ ? *limit_ - now : kAtATime;
      const bool signal = interrupt_.wait(time, {&readable, 1}) && interrupt_.take();
      if (signal && limit_) return false;
      if (signal) limit_ = steady_clock::now() + kGrace;
      if (readable.revents != 0) return true;
    }
  }

 private:
  using steady_clock = std::chrono::steady_clock;
  static constexpr steady_clock::duration kGrace = std::chrono::seconds(2);
  static constexpr steady_clock::duration kAtATime = std::chrono::hours(1);

  Interrupt interrupt_;
  std::optional<steady_clock::time_point> limit_;
};

struct Fed {
  std::uint64_t not_ethernet = 0;    ///< frames of interfaces that are none
  std::uint64_t unsorted = 0;        ///< frames that stand far from where their time belongs
  std::optional<std::string> fault;  ///< what ended it before the capture's end
};

/// Feeds the judge. What comes from several interfaces is sorted first, section by section.
Fed judge_all(CaptureReader& reader, Judge& judge) {
  Fed fed;
  TimeSorter sorter;
  CaptureRecord record;
  std::uint32_t section = 0;
  const auto give = [&](const CaptureRecord& r) {
    judge.frame(
        {r.number, r.interface, r.at, r.bytes, r.length, reader.interfaces()[r.interface].section});
  };
  for (;;) {
    const auto more = reader.next(record);
    if (!more) fed.fault = more.error().message;
    if (!more || !*more) break;
    if (std::exchange(section, reader.interfaces()[record.interface].section) != section) {
      sorter.finish(give);
    }
    if (!reader.interfaces()[record.interface].ethernet()) {
      ++fed.not_ethernet;
    } else if (reader.interfaces().size() > 1) {
      sorter.push(record, give);
    } else {
      give(record);
    }
  }
  sorter.finish(give);
  fed.unsorted = sorter.unsorted();
  for (std::uint32_t i = 0; i < reader.interfaces().size(); ++i) {
    if (reader.interfaces()[i].missed != 0) judge.missed_on(i);
  }
  judge.finish();
  return fed;
}

/// Frames of some sides, by what came of them.
struct Counts {
  std::uint64_t judged = 0;
  std::uint64_t cut = 0;
  std::uint64_t damaged = 0;
  std::uint64_t elsewhere = 0;
  std::uint64_t addresses = 0;
  void add(const SideSummary& side) {
    judged += side.judged;
    cut += side.cut;
    damaged += side.damaged;
    elsewhere += side.elsewhere;
  }
};

constexpr const char* kCut =
    "were captured too short (capture 158 bytes of each frame at least, as tcpdump -s 158)";

std::string why_none(const Counts& counts) {
  std::string why = "no frame of a link in it could be judged: ";
  if (counts.cut != 0) {
    why += fmt::format("{} {}, ", counts.cut, kCut);
  }
  if (counts.damaged != 0) why += fmt::format("{} have a wrong header CRC (L1), ", counts.damaged);
  if (counts.addresses != 0) {
    why +=
        fmt::format("{} were sent by a group address, or by a MAC to itself, ", counts.addresses);
  }
  if (counts.elsewhere != 0) why += fmt::format("{} came by another interface, ", counts.elsewhere);
  why.resize(why.size() - 2);
  return why;
}

/// Why nothing of the capture, or of a side that was asked for, could be judged; or nothing.
std::optional<std::string> nothing_judged(const JudgeReport& report, const std::set<Mac>& only,
                                          const JudgeOptions& options) {
  const Judge& judge = report.judge;
  Counts all;
  std::map<Mac, Counts> by_mac;
  for (const LinkView& link : judge.links()) {
    for (std::size_t side = 0; side < 2; ++side) {
      if (!link.taps[side].seen()) continue;
      all.add(link.judge->sides()[side]);
      by_mac[link.judge->sides()[side].mac].add(link.judge->sides()[side]);
    }
  }
  all.cut += judge.unjudged().cut;
  all.damaged += judge.unjudged().damaged;
  all.addresses += judge.unjudged().addresses;
  if (judge.links().empty() && judge.unjudged().all() == 0) {
    return fmt::format(
        "{}: no frame of a link in it: {} frames, {} of another EtherType than {:#06x} (see "
        "--ether-type), {} not Ethernet",
        options.capture, judge.frames() + report.not_ethernet, judge.other(), options.ether_type,
        report.not_ethernet);
  }
  if (all.judged == 0) return fmt::format("{}: {}", options.capture, why_none(all));
  for (const Mac& mac : only) {
    const auto at = by_mac.find(mac);
    const std::string name =
        fmt::format("{}: --only {}", options.capture, conformance::to_text(mac));
    if (at == by_mac.end()) return name + ": no frame of a link comes from there";
    if (at->second.judged == 0) return fmt::format("{}: {}", name, why_none(at->second));
  }
  if (only.empty() && all.cut > all.judged) {
    return fmt::format("{}: {} frames of links were judged, and {} {}", options.capture, all.judged,
                       all.cut, kCut);
  }
  // Short frames alone say next to nothing: a NACK or CLOSE between DATA that were cut.
  for (const auto& [mac, counts] : by_mac) {
    if ((!only.empty() && !only.contains(mac)) || counts.cut <= counts.judged) continue;
    return fmt::format("{}: of {} frames {} were judged, and {} {}", options.capture,
                       conformance::to_text(mac), counts.judged, counts.cut, kCut);
  }
  return std::nullopt;
}

void print_text(const JudgeReport& report, std::ostream& out) {
  std::size_t certain = 0;
  for (const Finding& finding : report.findings) {
    if (finding.grade != Grade::kCertain && !report.complete) continue;
    out << finding_text(report, finding);
    ++certain;
  }
  if (certain != report.findings.size()) {
    out << "If the capture has every frame, once and in the order sent (--complete), then also:\n";
    for (const Finding& finding : report.findings) {
      if (finding.grade != Grade::kCertain) out << finding_text(report, finding);
    }
  }
  out << summary_text(report);
  const std::size_t others = report.findings.size() - certain;
  out << fmt::format("{} finding{} told{}\n", certain, certain == 1 ? "" : "s",
                     others == 0 ? "" : fmt::format(", and {} if nothing was missed", others));
  if (report.left_out != 0) {
    out << fmt::format("{} more are only counted above; see --only\n", report.left_out);
  }
}

}  // namespace

int judge_capture(const JudgeOptions& options, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const std::string& message) {
    err << fmt::format("mtreplay: {}\n", message);
    return kUnusable;
  };
  const auto only = parse_macs(options.only);
  if (!only) return fail(only.error().message);
  if (const auto fault = output_fault(options.output, {options.capture})) return fail(*fault);
  std::optional<StandardInput> input;
  CaptureReader::Wait wait;
  if (options.capture == "-") {
    input.emplace();
    wait = [&](int file) { return input->wait(file); };
  }
  auto reader = CaptureReader::open(options.capture, std::move(wait));
  if (!reader) return fail(reader.error().message);
  Findings findings(options, *only);
  Judge& judge = findings.judge;
  const Fed fed = judge_all(*reader, judge);
  const JudgeReport report{.judge = judge,
                           .findings = findings.list,
                           .left_out = findings.left_out,
                           .interfaces = reader->interfaces(),
                           .not_ethernet = fed.not_ethernet,
                           .unsorted = fed.unsorted,
                           .cut_off = reader->cut_off(),
                           .complete = options.complete};
  if (fed.fault && judge.judged() == 0) return fail(*fed.fault);
  const auto nothing = nothing_judged(report, *only, options);
  if (nothing && judge.links().empty()) return fail(*nothing);
  const bool json_alone = options.json && options.output.empty();
  if (!json_alone) print_text(report, out);
  if (options.json) {
    if (json_alone) {
      out << judge_json(report);
    } else if (const auto fault = write_output(options.output, judge_json(report))) {
      return fail(*fault);
    }
  }
  if (const auto fault = end_output(out)) return fail(*fault);
  // What could be read was judged, and told; but that was not all.
  if (fed.fault) return fail(*fed.fault);
  if (findings.broken) return kDiffers;
  return nothing ? fail(*nothing) : kConforms;
}

}  // namespace mtl::tools
