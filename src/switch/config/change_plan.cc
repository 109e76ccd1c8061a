#include "switch/config/change_plan.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "switch/config/device_plan.h"
#include "switch/config/problems.h"
#include "topology/generate.h"

namespace mtl::switchd {
namespace {

using google::protobuf::Message;
using mtlink::config::NodeConfig;

/// The name of the first field that differs, besides those of `changeable`; empty: none does.
std::string first_difference(const Message& a, const Message& b,
                             const std::set<std::string>& changeable) {
  const auto* type = a.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (changeable.contains(field->name())) continue;
    google::protobuf::util::MessageDifferencer differ;
    if (!differ.CompareWithFields(a, b, {field}, {field})) return field->name();
  }
  return {};
}

/// A port or slot of a file.
struct Entry {
  const Message* message = nullptr;
  std::string path;
};

std::map<std::uint32_t, Entry> entries(const NodeConfig& config) {
  std::map<std::uint32_t, Entry> out;
  for (int i = 0; i < config.ports_size(); ++i) {
    out[config.ports(i).port()] = {&config.ports(i), item("ports", i)};
  }
  for (int i = 0; i < config.slots_size(); ++i) {
    out[config.slots(i).port()] = {&config.slots(i), item("slots", i)};
  }
  return out;
}

/// What only one port or group of ports can have at a time; empty: nothing.
std::string place_of(const Device& device) {
  if (const auto* ring = std::get_if<RingDevice>(&device)) return "ring " + ring->name;
  if (std::holds_alternative<MemifDevice>(device)) return text(device);
  return shared_name(device);
}

class ChangePlanner {
 public:
  ChangePlanner(const Plan& running, const Plan& next)
      : running_(running),
        next_(next),
        problems_(next.file.locations),
        before_(entries(running.file.message)),
        after_(entries(next.file.message)) {}

  Result<PlanChange> plan(const std::vector<network::Route>& in_force) {
    compare_node();
    compare_ports();
    for (const PortId port : out_.added) check_added(port);
    for (const PortId port : out_.removed) check_removed(port);
    if (problems_.none()) check_routes(in_force);
    if (!problems_.none()) return problems_.error();
    return std::move(out_);
  }

 private:
  void compare_node();
  void compare_ports();
  void check_added(PortId port);
  void check_removed(PortId port);
  void check_routes(const std::vector<network::Route>& in_force);
  bool added(PortId port) const {
    return std::find(out_.added.begin(), out_.added.end(), port) != out_.added.end();
  }

  const Plan& running_;
  const Plan& next_;
  Problems problems_;
  std::map<std::uint32_t, Entry> before_;
  std::map<std::uint32_t, Entry> after_;
  PlanChange out_;
};

void ChangePlanner::compare_node() {
  NodeConfig was = running_.file.message;
  NodeConfig is = next_.file.message;
  for (;;) {  // one after the other: an operator wants all of them
    const std::string field = first_difference(was, is, {"ports", "slots", "routes", "fabric"});
    if (field.empty()) return;
    problems_.add(field,
                  "differs from what the node runs with, and cannot be changed while it "
                  "runs; put it back, or restart mtswitchd");
    for (NodeConfig* config : {&was, &is}) {
      config->GetReflection()->ClearField(config, config->GetDescriptor()->FindFieldByName(field));
    }
  }
}

void ChangePlanner::compare_ports() {
  for (const auto& [number, entry] : before_) {
    const auto now = after_.find(number);
    const PortId port(static_cast<std::uint16_t>(number));
    if (now == after_.end()) {
      out_.removed.push_back(port);
      continue;
    }
    const Message& is = *now->second.message;
    const std::string remedy =
        "; a port that runs is not changed: take it out and reload, then put it in again and "
        "reload, which makes its link anew, or give the new one another number";
    if (entry.message->GetDescriptor() != is.GetDescriptor()) {
      problems_.add(now->second.path,
                    "is not of the kind of port " + std::to_string(number) + " that runs" + remedy);
      continue;
    }
    const std::string field = first_difference(*entry.message, is, {});
    if (field.empty()) continue;
    problems_.add(now->second.path + "." + field,
                  "differs from that of port " + std::to_string(number) + " that runs" + remedy);
  }
  for (const auto& [number, entry] : after_) {
    if (!before_.contains(number)) {
      out_.added.push_back(PortId(static_cast<std::uint16_t>(number)));
    }
  }
}

void ChangePlanner::check_added(PortId port) {
  const PortPlan& plan = next_.ports[port.value()];
  const std::string& path = after_.at(port.value()).path;
  for (const PortPlan& other : next_.ports) {
    if (!other.present() || other.first_on_device != plan.first_on_device || added(other.port)) {
      continue;
    }
    problems_.add(path, "is on " + shared_name(plan.device) + ", as port " + other.name +
                            " is that runs; a device that runs gets no further port: give it one "
                            "of its own, or restart mtswitchd");
    return;
  }
  const std::string place = place_of(plan.device);
  for (const PortPlan& other : running_.ports) {
    if (!before_.contains(other.port.value())) continue;  // none, or one that is leaving
    const bool stays = after_.contains(other.port.value());
    if (other.name == plan.name && !stays) {
      problems_.add(path + ".name", "is \"" + plan.name + "\", which port " +
                                        std::to_string(other.port.value()) +
                                        " has that this reload removes; remove it first, by a "
                                        "reload of its own");
    }
    if (!place.empty() && place == place_of(other.device) && !stays) {
      problems_.add(path, "is on " + place + ", which port " + other.name +
                              " has that this reload removes; remove it first, by a reload of its "
                              "own");
    }
  }
}

void ChangePlanner::check_removed(PortId port) {
  const PortPlan& plan = running_.ports[port.value()];
  for (const PortPlan& other : running_.ports) {
    if (!other.present() || other.first_on_device != plan.first_on_device ||
        !after_.contains(other.port.value())) {
      continue;
    }
    problems_.add(after_.at(other.port.value()).path,
                  "is on " + shared_name(plan.device) + " with port " + plan.name +
                      ", which is not there any more; a device that runs loses no single port: "
                      "disable it (mtctl port down), take out all of them, or restart mtswitchd");
    return;
  }
}

void ChangePlanner::check_routes(const std::vector<network::Route>& in_force) {
  if (!next_.fabric) return;
  const auto ok =
      topology::check_change(*next_.fabric, next_.node.node, next_.peers, in_force, next_.routes);
  if (ok) return;
  problems_.add("fabric",
                "leads to routes that do not go with those in force, whose packets are still "
                "under way: both are right, but together " +
                    ok.error().message +
                    "; restart mtswitchd, or reload when nothing is queued any more, with routes "
                    "that leave out the destinations of the circle in between");
}

}  // namespace

Host host_of(const Plan& running, Host host) {
  host.longest_frame = [&running, ask = std::move(host.longest_frame)](
                           const std::string& interface) -> Result<std::uint32_t> {
    const auto known = running.frames.find(interface);
    return known == running.frames.end() ? ask(interface) : known->second;
  };
  return host;
}

Result<PlanChange> plan_change(const Plan& running, const Plan& next,
                               const std::vector<network::Route>& in_force) {
  return ChangePlanner(running, next).plan(in_force);
}

}  // namespace mtl::switchd
