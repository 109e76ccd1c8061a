#include "tools/mtreplay/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <string_view>

#include "tools/mtreplay/output.h"
#include "tools/printable.h"
#include "tools/standard_streams.h"

namespace mtl::tools {
namespace {

namespace json = boost::json;

std::size_t count(const std::vector<TraceResult>& results, int status) {
  return static_cast<std::size_t>(std::count_if(
      results.begin(), results.end(), [&](const TraceResult& r) { return r.status == status; }));
}

/// Of names of files and of what stands in traces.
std::string lines(std::string_view text) {
  return printable(text, "\n\t");
}

/// Text of XML, in an attribute or not.
std::string xml(std::string_view text) {
  std::string out;
  for (const char c : lines(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

std::string late_text(const conformance::Lateness& late) {
  const auto ms = [](Duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  return fmt::format("{:.2f} to {:.2f} ms, median {:.2f} ms", ms(late.least), ms(late.most),
                     ms(late.median));
}

/// How well times were kept (below 0: early), and what of the trace was compared.
std::string live_text(const LiveFacts& live) {
  std::string text = fmt::format("time scale {}; done late by {}; frames late by {}",
                                 live.time_scale, late_text(live.inputs), late_text(live.frames));
  if (live.attempts > 1) text += fmt::format("; at attempt {}", live.attempts);
  for (std::size_t i = 0; i < live.earlier.size(); ++i) {
    text += fmt::format("; attempt {}: {}", i + 1, first_line(live.earlier[i]));
  }
  for (const std::string& what : live.not_compared) text += fmt::format("; {} not compared", what);
  return text;
}

/// The first line of what is wrong, which says if it is not sure.
std::string title(const TraceResult& result) {
  return (result.status == kInconclusive ? "inconclusive: " : "") +
         std::string(first_line(result.message));
}

std::string junit(const std::vector<TraceResult>& results) {
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format(
      "<testsuite name=\"mtreplay\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
      results.size(), count(results, kDiffers),
      count(results, kUnusable) + count(results, kInconclusive), count(results, kNotRun));
  for (const TraceResult& result : results) {
    out += fmt::format("  <testcase classname=\"{}\" name=\"{}\"",
                       xml(result.path.parent_path().string()), xml(result.name));
    const std::string times =
        result.live ? fmt::format("    <system-out>{}</system-out>\n", xml(live_text(*result.live)))
                    : "";
    if (result.status == kConforms) {
      out += times.empty() ? "/>\n" : fmt::format(">\n{}  </testcase>\n", times);
      continue;
    }
    const std::string_view kind = result.status == kDiffers  ? "failure"
                                  : result.status == kNotRun ? "skipped"
                                                             : "error";
    out += fmt::format(">\n    <{0} message=\"{1}\">{2}</{0}>\n{3}  </testcase>\n", kind,
                       xml(title(result)), xml(result.message), times);
  }
  return out + "</testsuite>\n";
}

/// A YAML block of TAP: the message as a literal, each line indented.
std::string yaml(std::string_view message) {
  std::string out = "  ---\n  message: |\n";
  while (!message.empty()) {
    const std::string_view line = first_line(message);
    out += fmt::format("    {}\n", line);
    message.remove_prefix(std::min(line.size() + 1, message.size()));
  }
  return out + "  ...\n";
}

/// '#' begins a directive in TAP.
std::string tap_name(std::string_view name) {
  std::string out = printable(name);
  std::replace(out.begin(), out.end(), '#', '_');
  return out;
}

std::string tap(const std::vector<TraceResult>& results) {
  std::string out = fmt::format("TAP version 13\n1..{}\n", results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TraceResult& result = results[i];
    const bool skipped = result.status == kNotRun;
    const bool ok = result.status == kConforms || skipped;
    out += fmt::format("{} {} - {}", ok ? "ok" : "not ok", i + 1, tap_name(result.name));
    out += skipped ? fmt::format(" # SKIP {}\n", printable(first_line(result.message))) : "\n";
    if (!ok)
      out += yaml(lines(title(result) + result.message.substr(first_line(result.message).size())));
    if (result.live) out += fmt::format("# {}\n", printable(live_text(*result.live)));
  }
  return out;
}

std::string_view kind_name(conformance::Difference::Kind kind) {
  using Kind = conformance::Difference::Kind;
  switch (kind) {
    case Kind::kReplayer:
      return "replayer";
    case Kind::kFrame:
      return "frame";
    case Kind::kDelivery:
      return "delivery";
    case Kind::kCounter:
      return "counter";
  }
  return "?";
}

json::object difference_object(const conformance::Difference& difference) {
  json::object object;
  object["kind"] = kind_name(difference.kind);
  object["at_ns"] = nanos(difference.at);
  if (difference.port) object["port"] = difference.port->value();
  if (difference.frame != 0) object["frame"] = difference.frame;
  object["what"] = lines(difference.what);
  if (difference.fields.empty()) return object;
  json::array fields;
  for (const conformance::FieldDifference& field : difference.fields) {
    fields.push_back(json::object{{"name", field.name},
                                  {"expected", field.expected},
                                  {"got", field.got},
                                  {"rule", field.rule}});
  }
  object["fields"] = std::move(fields);
  return object;
}

std::string_view status_name(int status) {
  switch (status) {
    case kConforms:
      return "conforms";
    case kDiffers:
      return "differs";
    case kInconclusive:
      return "inconclusive";
    case kNotRun:
      return "not_run";
    default:
      return "unusable";
  }
}

json::object lateness_object(const conformance::Lateness& late) {
  return {{"count", late.count},
          {"least_ns", late.least.count()},
          {"median_ns", late.median.count()},
          {"most_ns", late.most.count()}};
}

json::object live_object(const LiveFacts& live) {
  json::array not_compared;
  for (const std::string& what : live.not_compared) not_compared.push_back(json::string(what));
  json::array earlier;
  for (const std::string& why : live.earlier) earlier.push_back(json::string(lines(why)));
  return {{"time_scale", live.time_scale},
          {"earlier", std::move(earlier)},
          {"attempts", live.attempts},
          {"done_late", lateness_object(live.inputs)},
          {"frames_late", lateness_object(live.frames)},
          {"not_compared", std::move(not_compared)}};
}

std::string to_json(const std::vector<TraceResult>& results) {
  json::array traces;
  for (const TraceResult& result : results) {
    json::object object;
    object["name"] = lines(result.name);
    object["path"] = lines(result.path.string());
    object["status"] = status_name(result.status);
    json::array rules;
    for (const std::string& rule : result.rules) rules.push_back(json::string(lines(rule)));
    object["rules"] = std::move(rules);
    if (result.status == kUnusable) object["error"] = lines(result.message);
    if (result.status == kNotRun || result.status == kInconclusive)
      object["why"] = lines(result.message);
    if (result.live) object["live"] = live_object(*result.live);
    json::array differences;
    for (const auto& difference : result.differences) {
      differences.push_back(difference_object(difference));
    }
    object["differences"] = std::move(differences);
    traces.push_back(std::move(object));
  }
  json::object root;
  root["traces"] = results.size();
  root["conform"] = count(results, kConforms);
  root["differ"] = count(results, kDiffers);
  root["unusable"] = count(results, kUnusable);
  root["inconclusive"] = count(results, kInconclusive);
  root["not_run"] = count(results, kNotRun);
  root["results"] = std::move(traces);
  return json::serialize(root) + "\n";
}

}  // namespace

std::string result_text(const TraceResult& result) {
  const std::string live = result.live ? fmt::format("        {}\n", live_text(*result.live)) : "";
  const bool in_part = result.live && !result.live->not_compared.empty();
  switch (result.status) {
    case kConforms:
      return fmt::format("{} {}\n", in_part ? "in part" : "ok     ", printable(result.name)) + live;
    case kDiffers:
      return fmt::format("FAILED  {}", printable(result.message, "\n")) + live;
    case kInconclusive:
      return fmt::format("UNSURE  {}: {}\n", printable(result.name),
                         printable(result.message, "\n")) +
             live;
    case kNotRun:
      return fmt::format("not run {}: {}\n", printable(result.name),
                         printable(result.message, "\n"));
    default:
      return fmt::format("UNUSED  {}: {}\n", printable(result.name), printable(result.message));
  }
}

std::optional<std::string> finish_report(const ReportOptions& options,
                                         const std::vector<TraceResult>& results,
                                         const std::string& sums, std::ostream& out) {
  if (options.text()) out << sums;
  std::optional<std::string> fault;
  if (options.report) {
    const std::string text = render(*options.report, results);
    if (options.text()) {
      fault = write_output(options.output, text);
    } else {
      out << text;
    }
  }
  return fault ? fault : end_output(out);
}

std::string render(ReportFormat format, const std::vector<TraceResult>& results) {
  switch (format) {
    case ReportFormat::kJunit:
      return junit(results);
    case ReportFormat::kTap:
      return tap(results);
    case ReportFormat::kJson:
      return to_json(results);
  }
  return {};
}

}  // namespace mtl::tools
