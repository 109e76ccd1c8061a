#include "tools/mtctl/rates.h"

#include <boost/json/array.hpp>

#include "tools/mtctl/table.h"

namespace mtl::tools {
namespace {

using mtlink::control::NodeState;
using mtlink::control::PortState;

const PortState* find(const NodeState& node, std::uint32_t number) {
  for (const auto& port : node.ports())
    if (port.port() == number) return &port;
  return nullptr;
}

std::uint64_t drops(const PortState& port) {
  std::uint64_t sum = 0;
  for (const auto& drop : port.drops()) sum += drop.count();
  return sum;
}

}  // namespace

std::vector<PortRates> rates(const NodeState& before, const NodeState& now) {
  std::vector<PortRates> all;
  if (now.uptime_ns() <= before.uptime_ns()) return all;
  const double seconds = static_cast<double>(now.uptime_ns() - before.uptime_ns()) / 1e9;
  const auto per_second = [&](std::uint64_t from, std::uint64_t to) {
    return to < from ? 0.0 : static_cast<double>(to - from) / seconds;
  };
  for (const auto& port : now.ports()) {
    const PortState* old = find(before, port.port());
    if (old == nullptr) continue;
    all.push_back({.port = port.port(),
                   .name = port.name(),
                   .state = port.link().state(),
                   .frames_in = per_second(old->frames_in(), port.frames_in()),
                   .frames_out = per_second(old->frames_out(), port.frames_out()),
                   .bits_in = 8 * per_second(old->bytes_in(), port.bytes_in()),
                   .bits_out = 8 * per_second(old->bytes_out(), port.bytes_out()),
                   .replays = per_second(old->link().replays(), port.link().replays()),
                   .drops = per_second(drops(*old), drops(port))});
  }
  return all;
}

std::string rates_text(const std::vector<PortRates>& rates, bool colour) {
  using Align = Table::Align;
  Table table({{"PORT", Align::kRight},
               {"NAME"},
               {"LINK"},
               {"FRAMES/s IN", Align::kRight},
               {"FRAMES/s OUT", Align::kRight},
               {"IN", Align::kRight},
               {"OUT", Align::kRight},
               {"REPLAYS/s", Align::kRight},
               {"DROPS/s", Align::kRight}});
  for (const auto& r : rates)
    table.add({r.port, r.name, Cell(r.state, r.state == "up" ? Colour::kGood : Colour::kBad),
               rate(r.frames_in), rate(r.frames_out), bit_rate(r.bits_in), bit_rate(r.bits_out),
               rate(r.replays), Cell(rate(r.drops), r.drops > 0 ? Colour::kWarn : Colour::kNone)});
  return table.text(colour);
}

boost::json::object rates_json(const std::vector<PortRates>& rates) {
  boost::json::array ports;
  for (const auto& r : rates)
    ports.push_back(boost::json::object{{"port", r.port},
                                        {"name", r.name},
                                        {"state", r.state},
                                        {"frames_in_per_s", r.frames_in},
                                        {"frames_out_per_s", r.frames_out},
                                        {"bits_in_per_s", r.bits_in},
                                        {"bits_out_per_s", r.bits_out},
                                        {"replays_per_s", r.replays},
                                        {"drops_per_s", r.drops}});
  return {{"ports", std::move(ports)}};
}

}  // namespace mtl::tools
