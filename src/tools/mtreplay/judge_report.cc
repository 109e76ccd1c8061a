#include "tools/mtreplay/judge_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <string_view>

#include "base/mac_text.h"
#include "conformance/describe.h"
#include "tools/printable.h"

namespace mtl::tools {
namespace {

namespace json = boost::json;
using conformance::judge::Finding;
using conformance::judge::Grade;
using conformance::judge::Judge;
using conformance::judge::LinkView;
using conformance::judge::RuleCount;
using conformance::judge::SideSummary;
using conformance::judge::Spread;
using conformance::judge::Tapped;
using conformance::judge::Unjudged;

constexpr std::uint64_t SideSummary::*kCounts[] = {&SideSummary::bytes,
                                                   &SideSummary::packets,
                                                   &SideSummary::packet_bytes,
                                                   &SideSummary::acked,
                                                   &SideSummary::nacked,
                                                   &SideSummary::replays,
                                                   &SideSummary::replays_by_timer,
                                                   &SideSummary::polls,
                                                   &SideSummary::exhausted,
                                                   &SideSummary::bring_ups,
                                                   &SideSummary::closes,
                                                   &SideSummary::damaged,
                                                   &SideSummary::damaged_packets,
                                                   &SideSummary::missed,
                                                   &SideSummary::copies,
                                                   &SideSummary::late,
                                                   &SideSummary::cut,
                                                   &SideSummary::strangers,
                                                   &SideSummary::elsewhere};
constexpr std::string_view kCountNames[] = {
    "bytes on the wire", "packets",         "packet bytes",   "acknowledged",
    "listed missing",    "sent again",      "  by the timer", "polls (stalls)",
    "credit used up",    "bring-ups",       "closes",         "bad header CRC",
    "bad packet CRC",    "missed DATA",     "copies",         "late",
    "cut too short",     "session unknown", "elsewhere, too"};
static_assert(std::size(kCounts) == std::size(kCountNames));

std::string micros(Duration duration) {
  return fmt::format("{:.3f}", static_cast<double>(duration.count()) / 1000);
}

double seconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

std::string tags_text(std::uint32_t tags) {
  if (tags == 0) return {};
  const std::uint32_t outer = tags >> 16;
  const std::uint32_t inner = tags & 0xFFFF;
  return outer == 0 ? fmt::format(", VLAN {}", inner)
                    : fmt::format(", VLANs {} and {}", outer, inner);
}

std::string interface_text(const JudgeReport& report, std::uint32_t index) {
  const std::string& name = report.interfaces[index].name;
  return name.empty() ? fmt::format("{}", index) : printable(name);
}

std::string who(const SideSummary& side) {
  if (!side.node) return mac_text(side.mac);
  return fmt::format("{} (node {} port {})", mac_text(side.mac), side.node->value(),
                     side.port->value());
}

/// Bits of packets a second, between the first and the last frame of the side.
double throughput(const SideSummary& side) {
  const double time = seconds(side.last - side.first);
  return time > 0 ? 8 * static_cast<double>(side.packet_bytes) / time : 0;
}

void row(std::string& text, std::string_view name, const std::string& a, const std::string& b) {
  text += fmt::format("  {:<22} {:>24} {:>24}\n", name, a, b);
}

void count_rows(std::string& text, const std::array<SideSummary, 2>& sides) {
  for (std::size_t kind = 0; kind < link::kKinds; ++kind) {
    row(text, name(static_cast<link::Kind>(kind)), fmt::format("{}", sides[0].frames[kind]),
        fmt::format("{}", sides[1].frames[kind]));
  }
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    const std::uint64_t a = sides[0].*kCounts[i];
    const std::uint64_t b = sides[1].*kCounts[i];
    if (a + b != 0) row(text, kCountNames[i], fmt::format("{}", a), fmt::format("{}", b));
  }
}

std::string spread_text(const Spread& spread) {
  if (spread.samples == 0) return "-";
  return fmt::format("{} .. {}", micros(spread.least), micros(spread.most));
}

void spread_row(std::string& text, std::string_view name, const Spread& a, const Spread& b) {
  if (a.samples + b.samples != 0) row(text, name, spread_text(a), spread_text(b));
}

void time_rows(std::string& text, const std::array<SideSummary, 2>& sides) {
  row(text, "throughput, Mbit/s", fmt::format("{:.3f}", throughput(sides[0]) / 1e6),
      fmt::format("{:.3f}", throughput(sides[1]) / 1e6));
  row(text, "longest silence, us", micros(sides[0].longest_silence),
      micros(sides[1].longest_silence));
  spread_row(text, "INITs apart, us", sides[0].init_apart, sides[1].init_apart);
  spread_row(text, "timer again after, us", sides[0].timer_replay, sides[1].timer_replay);
  const Spread& a = sides[0].turn;
  const Spread& b = sides[1].turn;
  spread_row(text, "tap to it and back, us", a, b);
  if (a.samples == 0 || b.samples == 0) return;
  text += fmt::format("  {:<22} {} at least, {} on average\n", "round trip, us",
                      micros(a.least + b.least), micros(a.mean() + b.mean()));
}

std::string counts_text(const std::vector<RuleCount>& counts, bool complete) {
  std::string text;
  for (const RuleCount& count : counts) {
    text += fmt::format("{}{} x {}{}", text.empty() ? "" : ", ", count.rule, count.count,
                        complete || count.grade == Grade::kCertain ? "" : " unless missed");
  }
  return text;
}

/// Why a side may never have been seen to send, and what to do.
std::string one_way_text(const SideSummary& side) {
  return fmt::format(
      "  This capture shows one direction only, nothing that {} sent: so little can be\n"
      "  judged. Unless that side is silent: a program that sends past the kernel (DPDK, "
      "AF_PACKET,\n"
      "  AF_XDP) is not seen to send at its own interface. Capture between the sides, at both "
      "ends,\n"
      "  or by `mtctl capture` (docs/mtreplay.md, Where to capture).\n",
      mac_text(side.mac));
}

void link_text(std::string& text, const JudgeReport& report, std::size_t index) {
  const LinkView& link = report.judge.links()[index];
  const auto& sides = link.judge->sides();
  text +=
      fmt::format("link {}: {} sessions{}\n", index, link.judge->sessions(), tags_text(link.tags));
  for (std::size_t side = 0; side < 2; ++side) {
    text += fmt::format(
        "  side {}: {}{}\n", side, who(sides[side]),
        link.taps[side].seen()
            ? fmt::format(", interface {}", interface_text(report, link.taps[side].interface))
            : std::string(", never seen to send"));
  }
  for (std::size_t side = 0; side < 2; ++side) {
    if (!link.taps[side].seen()) text += one_way_text(sides[side]);
  }
  row(text, "", "side 0", "side 1");
  count_rows(text, sides);
  time_rows(text, sides);
  for (std::size_t side = 0; side < 2; ++side) {
    const std::string found = counts_text(link.judge->findings(side), report.complete);
    if (!found.empty()) text += fmt::format("  side {} broke: {}\n", side, found);
  }
  if (!report.complete && link.judge->incomplete()) {
    text +=
        "  The capture lacks frames of this link, or has some twice, late or damaged: only what "
        "is\n"
        "  certain all the same was told.\n";
  }
}

/// What belongs to no link, a line for each reason.
std::string unjudged_text(const Unjudged& unjudged) {
  std::string text;
  const auto line = [&](std::uint64_t count, const std::string& what) {
    if (count != 0) text += fmt::format("{} frames of no link: {}\n", count, what);
  };
  line(unjudged.damaged, "wrong header CRC, between MACs of which none was right");
  line(unjudged.cut, "captured too short, between MACs of which none was long enough");
  line(unjudged.addresses, "sent by a group address, or by a MAC to itself");
  line(unjudged.beyond, fmt::format("of links beyond the {} that are judged", Judge::kMostLinks));
  return text;
}

json::object unjudged_json(const Unjudged& unjudged) {
  return {{"damaged", unjudged.damaged},
          {"cut", unjudged.cut},
          {"addresses", unjudged.addresses},
          {"beyond_most_links", unjudged.beyond}};
}

std::string grade_name(Grade grade) {
  return grade == Grade::kCertain ? "certain" : "unless_missed";
}

/// null where nothing was measured.
json::value spread_json(const Spread& spread) {
  if (spread.samples == 0) return nullptr;
  return json::object{{"samples", spread.samples},
                      {"least", spread.least.count()},
                      {"mean", spread.mean().count()},
                      {"most", spread.most.count()}};
}

json::object side_json(const LinkView& link, std::size_t index, const JudgeReport& report) {
  const SideSummary& side = link.judge->sides()[index];
  json::object object;
  object["mac"] = mac_text(side.mac);
  if (side.node) object["node"] = side.node->value();
  if (side.port) object["port"] = side.port->value();
  const Tapped& tapped = link.taps[index];
  if (tapped.seen()) object["interface"] = interface_text(report, tapped.interface);
  json::object frames;
  for (std::size_t kind = 0; kind < link::kKinds; ++kind) {
    frames[name(static_cast<link::Kind>(kind))] = side.frames[kind];
  }
  object["frames"] = std::move(frames);
  constexpr std::string_view kNames[] = {"bytes",
                                         "packets",
                                         "packet_bytes",
                                         "acked",
                                         "nacked",
                                         "replays",
                                         "replays_by_timer",
                                         "polls",
                                         "exhausted",
                                         "bring_ups",
                                         "closes",
                                         "damaged",
                                         "damaged_packets",
                                         "missed",
                                         "copies",
                                         "late",
                                         "cut",
                                         "strangers",
                                         "elsewhere"};
  static_assert(std::size(kNames) == std::size(kCounts));
  for (std::size_t i = 0; i < std::size(kCounts); ++i) object[kNames[i]] = side.*kCounts[i];
  object["throughput_bits_per_s"] = throughput(side);
  object["longest_silence_ns"] = side.longest_silence.count();
  object["turn_ns"] = spread_json(side.turn);
  object["init_apart_ns"] = spread_json(side.init_apart);
  object["timer_replay_ns"] = spread_json(side.timer_replay);
  json::array rules;
  for (const RuleCount& count : link.judge->findings(index)) {
    rules.push_back(json::object{{"rule", std::string(count.rule)},
                                 {"grade", grade_name(count.grade)},
                                 {"count", count.count}});
  }
  object["rules"] = std::move(rules);
  return object;
}

}  // namespace

std::string side_text(const conformance::judge::Judge& judge, std::size_t link, std::size_t side) {
  return fmt::format("link {}, {}", link, who(judge.links()[link].judge->sides()[side]));
}

std::string finding_text(const JudgeReport& report, const Finding& finding) {
  return fmt::format(
      "frame {}, {}: {}: {}: {}\n", finding.frame, conformance::time_text(finding.at),
      side_text(report.judge, finding.link, finding.side), finding.rule, finding.why);
}

std::string summary_text(const JudgeReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.judge.links().size(); ++i) link_text(text, report, i);
  text += fmt::format("{} frames, {} of them judged, {} of another EtherType",
                      report.judge.frames(), report.judge.judged(), report.judge.other());
  if (report.not_ethernet != 0) text += fmt::format(", {} not Ethernet", report.not_ethernet);
  text += '\n' + unjudged_text(report.judge.unjudged());
  for (std::size_t i = 0; i < report.interfaces.size(); ++i) {
    const std::uint64_t missed = report.interfaces[i].missed;
    if (missed == 0) continue;
    text += fmt::format("interface {} missed {} frames, as the capture says\n",
                        interface_text(report, static_cast<std::uint32_t>(i)), missed);
  }
  if (report.unsorted != 0) {
    text += fmt::format("{} frames stand too far from where their time belongs to be put there\n",
                        report.unsorted);
  }
  if (report.cut_off) text += "the capture ends within a frame, which was left out\n";
  return text;
}

std::string judge_json(const JudgeReport& report) {
  json::array findings;
  for (const Finding& finding : report.findings) {
    const auto& side = report.judge.links()[finding.link].judge->sides()[finding.side];
    findings.push_back(json::object{{"link", finding.link},
                                    {"side", finding.side},
                                    {"mac", mac_text(side.mac)},
                                    {"rule", std::string(finding.rule)},
                                    {"grade", grade_name(finding.grade)},
                                    {"frame", finding.frame},
                                    {"at_ns", nanos(finding.at)},
                                    {"why", finding.why}});
  }
  json::array links;
  for (const LinkView& link : report.judge.links()) {
    json::object object;
    object["sessions"] = link.judge->sessions();
    object["incomplete"] = link.judge->incomplete();
    object["sides"] = json::array{side_json(link, 0, report), side_json(link, 1, report)};
    if (link.tags != 0) object["tags"] = tags_text(link.tags).substr(2);
    links.push_back(std::move(object));
  }
  json::object root;
  root["frames"] = report.judge.frames();
  root["judged"] = report.judge.judged();
  root["other_ether_type"] = report.judge.other();
  root["not_ethernet"] = report.not_ethernet;
  root["not_judged"] = unjudged_json(report.judge.unjudged());
  root["unsorted"] = report.unsorted;
  root["cut_off"] = report.cut_off;
  root["complete"] = report.complete;
  root["findings"] = std::move(findings);
  root["findings_left_out"] = report.left_out;
  root["links"] = std::move(links);
  return json::serialize(root) + "\n";
}

}  // namespace mtl::tools
