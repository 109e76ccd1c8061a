#include "conformance/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <system_error>
#include <utility>

#include "conformance/hex.h"
#include "conformance/pcap_file.h"

namespace mtl::conformance {
namespace {

namespace json = boost::json;

template <class T>
json::array numbers(const std::vector<T>& ids) {
  json::array list;
  for (const T& id : ids) list.emplace_back(id.value());
  return list;
}

json::object timers_object(const link::Timers& timers, std::uint64_t time_scale) {
  const auto scaled = [&](Duration d) {
    return std::min(d, kMaxTraceTimer / static_cast<std::int64_t>(time_scale)).count() *
           static_cast<std::int64_t>(time_scale);
  };
  return {{"init_interval", scaled(timers.init_interval)},
          {"keepalive_interval", scaled(timers.keepalive_interval)},
          {"dead_interval", scaled(timers.dead_interval)},
          {"ack_every", timers.ack_every},
          {"ack_delay", scaled(timers.ack_delay)},
          {"replay_timeout", scaled(timers.replay_timeout)},
          {"replay_limit", timers.replay_limit},
          {"nack_interval", scaled(timers.nack_interval)},
          {"hold_down", scaled(timers.hold_down)}};
}

json::object port_object(const TracePort& port, std::uint64_t time_scale) {
  const link::Config& link = port.config.link;
  json::object object;
  object["port"] = link.port.value();
  object["mac"] = to_text(link.mac);
  object["peer_mac"] = to_text(port.peer_mac);
  object["fixed_peer_mac"] = link.peer_mac.has_value();
  if (!port.other_macs.empty()) {
    json::array& others = object["other_macs"].emplace_array();
    for (const Mac& mac : port.other_macs) others.emplace_back(to_text(mac));
  }
  if (link.expect_node) object["expect_node"] = link.expect_node->value();
  if (link.expect_port) object["expect_port"] = link.expect_port->value();
  object["mtu"] = link.mtu;
  object["cell"] = link.cell;
  object["window"] = link.window;
  object["capacity"] = json::array(link.capacity.begin(), link.capacity.end());
  json::array nonces;
  json::array epochs;
  for (const link::BringUp& bring_up : port.bring_ups) {
    nonces.emplace_back(bring_up.nonce);
    epochs.emplace_back(bring_up.epoch);
  }
  object["nonces"] = std::move(nonces);
  object["epochs"] = std::move(epochs);
  object["timers"] = timers_object(link.timers, time_scale);
  if (const auto& edge = port.config.edge) {
    object["edge"] = {{"nodes", numbers(edge->nodes)}, {"partitions", numbers(edge->partitions)}};
  }
  return object;
}

json::object route_object(const network::Route& route) {
  json::array tiers;
  for (const network::Tier& tier : route.tiers) {
    json::array hops;
    for (const network::NextHop& hop : tier) {
      hops.push_back(json::object{{"port", hop.port.value()}, {"raise", hop.raise}});
    }
    tiers.push_back(std::move(hops));
  }
  return {{"dst", route.dst.value()}, {"tiers", std::move(tiers)}};
}

json::object delivery_object(const Delivery& delivery) {
  json::object object;
  object["at"] = nanos(delivery.at);
  object["port"] = delivery.port == kNoPort ? json::value() : json::value(delivery.port.value());
  object["vc"] = delivery.vc.value();
  object["packet"] = to_hex(delivery.packet);
  return object;
}

json::object drops_object(const DropCounts& drops) {
  json::object object;
  for (const auto& [reason, count] : drops) object[name(reason)] = count;
  return object;
}

json::object counters_object(const Trace& trace) {
  json::object counters;
  for (std::size_t i = 0; i < trace.port_drops.size(); ++i) {
    if (trace.port_drops[i].empty()) continue;
    counters[std::to_string(i)] = drops_object(trace.port_drops[i]);
  }
  if (!trace.node_drops.empty()) counters["node"] = drops_object(trace.node_drops);
  return counters;
}

/// A list, an element a line.
template <class T, class Object>
std::string lines(const std::vector<T>& list, Object object) {
  std::string text;
  for (const T& element : list) {
    text += fmt::format("{}\n    {}", text.empty() ? "" : ",", json::serialize(object(element)));
  }
  return text.empty() ? "[]" : "[" + text + "\n  ]";
}

std::string delivered_text(const Trace& trace) {
  if (!trace.digest) return lines(trace.deliveries, delivery_object);
  return json::serialize(json::object{{"delivered_count", trace.digest->count},
                                      {"delivered_sha256", to_hex(trace.digest->sha256)}});
}

}  // namespace

json::object dut_object(const Trace& trace, std::uint64_t time_scale) {
  json::array ports;
  for (const TracePort& port : trace.ports) ports.push_back(port_object(port, time_scale));
  json::array routes;
  for (const network::Route& route : trace.routes) routes.push_back(route_object(route));
  return {{"node", trace.node.value()},
          {"ports", std::move(ports)},
          {"routes", std::move(routes)},
          {"consume", trace.consume}};
}

json::object stimulus_object(const Stimulus& stimulus) {
  json::object object{{"at", nanos(stimulus.at)}, {"do", name(stimulus.what)}};
  if (stimulus.what == Stimulus::Do::kSubmit) {
    object["packet"] = to_hex(stimulus.packet);
  } else if (stimulus.what == Stimulus::Do::kRelease) {
    object["count"] = stimulus.count;
  } else {
    object["port"] = stimulus.port.value();
  }
  return object;
}

std::string trace_text(const Trace& trace) {
  json::array rules;
  for (const std::string& rule : trace.rules) rules.push_back(json::string(rule));
  return fmt::format(
      "{{\n  \"about\": {},\n  \"rules\": {},\n  \"dut\": {},\n  \"stimuli\": {},\n  \"end\": "
      "{},\n  "
      "\"delivered\": {},\n  \"counters\": {}\n}}\n",
      json::serialize(json::string(trace.about)), json::serialize(rules),
      json::serialize(dut_object(trace)), lines(trace.stimuli, stimulus_object), nanos(trace.end),
      delivered_text(trace), json::serialize(counters_object(trace)));
}

Result<void> write_trace(const std::filesystem::path& json, const Trace& trace) {
  namespace fs = std::filesystem;
  fs::path pcap = json;
  pcap.replace_extension(".pcap");
  const fs::path json_part = json.string() + ".part";
  const fs::path pcap_part = pcap.string() + ".part";
  std::error_code error;
  const fs::path folder = json.has_parent_path() ? json.parent_path() : ".";
  if (!fs::is_directory(folder, error)) {
    return Error{fmt::format("{}: there is no folder {}; make it, or name another", json.string(),
                             folder.string())};
  }
  for (const fs::path& path : {json, pcap, json_part, pcap_part}) {
    if (fs::exists(fs::symlink_status(path, error))) {
      return Error{fmt::format(
          "{}: is there already and is not replaced; remove it, or name another", path.string())};
    }
  }
  const auto undo = [&](Error why) {
    for (const fs::path& path : {json_part, pcap_part}) fs::remove(path, error);
    return why;
  };
  std::vector<CapturedFrame> frames;
  for (const TraceFrame& frame : trace.frames) frames.push_back({frame.at, frame.bytes});
  if (auto written = write_capture(pcap_part, frames); !written) return undo(written.error());
  std::ofstream out(json_part, std::ios::binary);
  out << trace_text(trace);
  out.close();
  if (!out) return undo(Error{fmt::format("{}: cannot be written completely", json.string())});
  fs::rename(pcap_part, pcap, error);
  if (error) return undo(Error{fmt::format("{}: {}", pcap.string(), error.message())});
  fs::rename(json_part, json, error);
  if (!error) return {};
  const std::string why = error.message();
  fs::remove(pcap, error);
  return undo(Error{fmt::format("{}: {}", json.string(), why)});
}

}  // namespace mtl::conformance
