#include "tools/mtreplay/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <string_view>

#include "conformance/printable.h"

namespace mtl::tools {
namespace {

namespace json = boost::json;

std::size_t count(const std::vector<TraceResult>& results, int status) {
  return static_cast<std::size_t>(std::count_if(
      results.begin(), results.end(), [&](const TraceResult& r) { return r.status == status; }));
}

/// Of names of files and of what stands in traces.
std::string lines(std::string_view text) {
  return conformance::printable(text, "\n\t");
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

std::string junit(const std::vector<TraceResult>& results) {
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format(
      "<testsuite name=\"mtreplay\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\">\n",
      results.size(), count(results, kDiffers), count(results, kUnusable));
  for (const TraceResult& result : results) {
    out += fmt::format("  <testcase classname=\"{}\" name=\"{}\"",
                       xml(result.path.parent_path().string()), xml(result.name));
    if (result.status == kConforms) {
      out += "/>\n";
      continue;
    }
    const std::string_view kind = result.status == kDiffers ? "failure" : "error";
    out += fmt::format(">\n    <{0} message=\"{1}\">{2}</{0}>\n  </testcase>\n", kind,
                       xml(first_line(result.message)), xml(result.message));
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
  std::string out = conformance::printable(name);
  std::replace(out.begin(), out.end(), '#', '_');
  return out;
}

std::string tap(const std::vector<TraceResult>& results) {
  std::string out = fmt::format("TAP version 13\n1..{}\n", results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TraceResult& result = results[i];
    const bool ok = result.status == kConforms;
    out += fmt::format("{} {} - {}\n", ok ? "ok" : "not ok", i + 1, tap_name(result.name));
    if (!ok) out += yaml(lines(result.message));
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

std::string to_json(const std::vector<TraceResult>& results) {
  json::array traces;
  for (const TraceResult& result : results) {
    json::object object;
    object["name"] = lines(result.name);
    object["path"] = lines(result.path.string());
    object["status"] = result.status == kConforms  ? "conforms"
                       : result.status == kDiffers ? "differs"
                                                   : "unusable";
    json::array rules;
    for (const std::string& rule : result.rules) rules.push_back(json::string(lines(rule)));
    object["rules"] = std::move(rules);
    if (result.status == kUnusable) object["error"] = lines(result.message);
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
  root["results"] = std::move(traces);
  return json::serialize(root) + "\n";
}

}  // namespace

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
