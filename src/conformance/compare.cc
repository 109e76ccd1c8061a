#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "conformance/describe.h"
#include "conformance/hex.h"
#include "conformance/replay.h"

namespace mtl::conformance {
namespace {

constexpr const char* kIndent = "    ";
constexpr std::size_t kShownDifferences = 20;  // in a report

/// "differs in ack (L2), header CRC (L1)".
std::string how_differs(const std::vector<FieldDifference>& fields) {
  std::vector<std::string> names;
  for (const FieldDifference& field : fields) {
    names.push_back(field.rule.empty() ? field.name
                                       : fmt::format("{} ({})", field.name, field.rule));
  }
  return fmt::format("differs in {}", fmt::join(names, ", "));
}

/// The first frame of `port` that differs: `expected` is nullptr when `got` is one too many, and
/// the other way about.
Difference frame_difference(PortId port, std::size_t index, const TraceFrame* expected,
                            const SentFrame* got) {
  Difference d;
  d.kind = Difference::Kind::kFrame;
  d.port = port;
  d.index = index;
  d.frame = expected == nullptr ? 0 : expected->number;
  std::optional<std::vector<std::byte>> left;
  std::optional<std::vector<std::byte>> right;
  std::string what;
  if (expected == nullptr) {
    d.at = got->at;
    right = got->bytes;
    what = fmt::format("sent one frame more than the trace has, {}", summary(got->bytes));
  } else if (got == nullptr) {
    d.at = expected->at;
    left = expected->bytes;
    what = fmt::format("never sent frame {} of the trace, {}", expected->number,
                       summary(expected->bytes));
  } else {
    d.at = std::min(expected->at, got->at);
    left = expected->bytes;
    right = got->bytes;
    d.fields = differing_fields(expected->bytes, got->bytes);
    what =
        fmt::format("frame {} of the trace {}", expected->number,
                    expected->bytes == got->bytes ? "came at another time" : how_differs(d.fields));
  }
  d.what = fmt::format("port {}: {} (the port's {}. sent frame)", port.value(), what, index + 1);
  d.detail = fmt::format("{}time: expected {} | got {}\n", kIndent,
                         expected == nullptr ? "-" : time_text(expected->at),
                         got == nullptr ? "-" : time_text(got->at)) +
             side_by_side(left, right, kIndent);
  return d;
}

void compare_port(const Trace& trace, const std::vector<SentFrame>& sent, PortId port,
                  std::vector<Difference>& differences) {
  std::size_t index = 0;
  for (const TraceFrame& expected : trace.frames) {
    if (expected.received || expected.port != port) continue;
    const SentFrame* got = index < sent.size() ? &sent[index] : nullptr;
    if (got == nullptr || got->at != expected.at || got->bytes != expected.bytes) {
      differences.push_back(frame_difference(port, index, &expected, got));
      return;
    }
    ++index;
  }
  if (index < sent.size()) {
    differences.push_back(frame_difference(port, index, nullptr, &sent[index]));
  }
}

std::string delivery_text(const Delivery* delivery) {
  if (delivery == nullptr) return "nothing";
  const std::string port =
      delivery->port == kNoPort ? "none (to itself)" : fmt::format("{}", delivery->port.value());
  return fmt::format("{}, port {}, vc {}, {}", time_text(delivery->at), port, delivery->vc.value(),
                     to_hex(delivery->packet));
}

void compare_deliveries(const Trace& trace, const Outcome& outcome,
                        std::vector<Difference>& differences) {
  const auto& expected = trace.deliveries;
  const auto& got = outcome.deliveries;
  const auto [e, g] = std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
  if (e == expected.end() && g == got.end()) return;
  const Delivery* left = e == expected.end() ? nullptr : &*e;
  const Delivery* right = g == got.end() ? nullptr : &*g;
  Difference d;
  d.kind = Difference::Kind::kDelivery;
  d.index = static_cast<std::size_t>(e - expected.begin());
  d.at = left == nullptr ? right->at : right == nullptr ? left->at : std::min(left->at, right->at);
  const Delivery* named = left == nullptr ? right : left;
  if (named->port != kNoPort) d.port = named->port;
  d.what = fmt::format("delivery {} differs; {} expected, {} came", d.index + 1, expected.size(),
                       got.size());
  d.detail = fmt::format("{}expected {}\n{}got      {}\n", kIndent, delivery_text(left), kIndent,
                         delivery_text(right));
  differences.push_back(std::move(d));
}

void compare_digest(const Trace& trace, const Outcome& outcome,
                    std::vector<Difference>& differences) {
  const Sha256 got = digest(outcome.deliveries);
  if (outcome.deliveries.size() == trace.digest->count && got == trace.digest->sha256) return;
  Difference d;
  d.kind = Difference::Kind::kDelivery;
  d.at = trace.end;
  d.what = fmt::format("deliveries differ: {} with SHA-256 {} expected, {} with {} came",
                       trace.digest->count, to_hex(trace.digest->sha256), outcome.deliveries.size(),
                       to_hex(got));
  differences.push_back(std::move(d));
}

void compare_drops(const Trace& trace, const DropCounts& expected, const DropCounts& got,
                   std::optional<PortId> port, std::vector<Difference>& differences) {
  std::set<Drop> reasons;
  for (const auto& [reason, count] : expected) reasons.insert(reason);
  for (const auto& [reason, count] : got) reasons.insert(reason);
  for (const Drop reason : reasons) {
    const auto e = expected.find(reason);
    const auto g = got.find(reason);
    const std::uint64_t left = e == expected.end() ? 0 : e->second;
    const std::uint64_t right = g == got.end() ? 0 : g->second;
    if (left == right) continue;
    Difference d;
    d.kind = Difference::Kind::kCounter;
    d.at = trace.end;
    d.port = port;
    d.what = fmt::format("{}: counter {}: {} expected, {} counted",
                         port ? fmt::format("port {}", port->value()) : "node", name(reason), left,
                         right);
    differences.push_back(std::move(d));
  }
}

}  // namespace

std::vector<Difference> compare(const Trace& trace, const Outcome& outcome) {
  std::vector<Difference> differences = outcome.faults;
  for (std::size_t i = 0; i < trace.ports.size(); ++i) {
    compare_port(trace, outcome.sent[i], PortId{static_cast<std::uint16_t>(i)}, differences);
  }
  if (trace.digest) {
    compare_digest(trace, outcome, differences);
  } else {
    compare_deliveries(trace, outcome, differences);
  }
  for (std::size_t i = 0; i < trace.ports.size(); ++i) {
    compare_drops(trace, trace.port_drops[i], outcome.port_drops[i],
                  PortId{static_cast<std::uint16_t>(i)}, differences);
  }
  compare_drops(trace, trace.node_drops, outcome.node_drops, std::nullopt, differences);
  std::stable_sort(differences.begin(), differences.end(),
                   [](const Difference& a, const Difference& b) { return a.at < b.at; });
  return differences;
}

std::vector<Difference> replay(const Trace& trace, const ReplayOptions& options) {
  return compare(trace, run(trace, options));
}

std::string report(const Trace& trace, const std::vector<Difference>& differences) {
  const Difference& first = differences.front();
  std::string text =
      fmt::format("{}: differs at {}: {}\n", trace.name, time_text(first.at), first.what);
  text += fmt::format("{}shows: {}\n{}rules: {}\n", kIndent, trace.about, kIndent,
                      fmt::join(trace.rules, ", "));
  text += first.detail;
  const std::size_t shown = std::min(differences.size(), kShownDifferences);
  for (std::size_t i = 1; i < shown; ++i) {
    text += fmt::format("{}then at {}: {}\n", kIndent, time_text(differences[i].at),
                        differences[i].what);
  }
  if (shown < differences.size()) {
    text += fmt::format("{}and {} more\n", kIndent, differences.size() - shown);
  }
  return text;
}

}  // namespace mtl::conformance
