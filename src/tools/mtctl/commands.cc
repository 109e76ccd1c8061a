#include "tools/mtctl/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "control/file/json_object.h"
#include "control/file/message_file.h"
#include "tools/interrupt.h"
#include "tools/mtctl/books.h"
#include "tools/mtctl/find_port.h"
#include "tools/mtctl/json.h"
#include "tools/mtctl/ping_report.h"
#include "tools/mtctl/rates.h"
#include "tools/mtctl/show.h"
#include "tools/mtctl/table.h"

namespace mtl::tools {
namespace {

using boost::json::array;
using boost::json::object;
using control::Client;
using control::to_json;
using mtlink::control::NodeState;
using mtlink::control::Request;
using mtlink::control::Response;

/// What the daemon may take beyond the time that a call is given.
constexpr std::chrono::milliseconds kGrace = Client::kDefaultTimeout;
/// Devices are opened, and links of removed ports get some time to say CLOSE.
constexpr std::chrono::milliseconds kReloadTime{60'000};
constexpr const char* kClearScreen = "\x1b[H\x1b[2J";

void print(const Output& output, const object& json) {
  output.out << boost::json::serialize(json) << '\n' << std::flush;
}

/// A call that is answered by Done; `said` is printed then.
Result<int> do_call(Client& client, const Request& request, const std::string& said,
                    const Output& output) {
  const auto response = client.call(request);
  if (!response) return response.error();
  if (!response->has_done()) return wrong_answer();
  if (output.json)
    print(output, {{"done", true}});
  else
    output.out << said << '\n';
  return 0;
}

object book_json(const Book& book) {
  const auto terms = [](const std::vector<Term>& list) {
    object all;
    for (const auto& term : list) all[term.name] = term.value;
    return all;
  };
  return {{"place", book.place},        {"about", book.about},
          {"left", terms(book.left)},   {"right", terms(book.right)},
          {"slack", terms(book.slack)}, {"difference", book.difference()}};
}

}  // namespace

Result<int> show(Client& client, const std::string& view, const Output& output) {
  const auto node = get_node(client);
  if (!node) return node.error();
  if (output.json) {
    print(output, view_json(view, *node));
    return 0;
  }
  for (const auto& known : views())
    if (known.name == view) output.out << known.text(*node, output.colour);
  return 0;
}

Result<int> show_summary(Client& client, const Output& output) {
  static constexpr std::array<const char*, 3> kParts{"node", "links", "drops"};
  const auto node = get_node(client);
  if (!node) return node.error();
  object all;
  bool first = true;
  for (const char* part : kParts) {
    if (output.json) {
      for (auto& [key, value] : view_json(part, *node)) all[key] = std::move(value);
      continue;
    }
    if (!std::exchange(first, false)) output.out << '\n';
    for (const auto& known : views())
      if (known.name == std::string_view(part)) output.out << known.text(*node, output.colour);
  }
  if (output.json) print(output, all);
  return 0;
}

Result<int> watch(Client& client, std::chrono::milliseconds interval, std::uint64_t updates,
                  const Output& output) {
  Request request;
  request.mutable_watch()->set_interval_ms(static_cast<std::uint32_t>(interval.count()));
  auto response = client.call(request, interval + kGrace);
  NodeState before;
  for (std::uint64_t shown = 0; updates == 0 || shown < updates;) {
    if (!response) return response.error();
    if (!response->has_node()) return wrong_answer();
    NodeState now = std::move(*response->mutable_node());
    if (before.uptime_ns() != 0) {
      const auto all = rates(before, now);
      if (output.json) {
        print(output, rates_json(all));
      } else {
        if (output.terminal) output.out << kClearScreen;
        output.out << fmt::format("node {} ({}), every {} ms\n", now.node(), now.name(),
                                  interval.count())
                   << rates_text(all, output.colour) << (output.terminal ? "" : "\n") << std::flush;
      }
      if (!output.out) break;  // nobody can see any more of it
      ++shown;
    }
    before = std::move(now);
    if (updates == 0 || shown < updates) response = client.receive(interval + kGrace);
  }
  return 0;
}

Result<int> ping(Client& client, const PingOptions& options, const Output& output) {
  Request request;
  *request.mutable_ping() = options.call;
  const auto timeout_ms = options.call.timeout_ms();
  if (!output.json)
    output.out << fmt::format("ping to node {}, {} bytes of data\n", options.call.node(),
                              options.call.bytes());
  const Interrupt interrupt;
  PingSummary summary;
  auto next = std::chrono::steady_clock::now();
  while (options.count == 0 || summary.sent() < options.count) {
    if (interrupt.wait(next - std::chrono::steady_clock::now())) break;
    next = std::max(next + options.interval, std::chrono::steady_clock::now());
    const auto response = client.call(request, std::chrono::milliseconds(timeout_ms) + kGrace);
    if (!response) return response.error();
    if (!response->has_ping()) return wrong_answer();
    const auto& result = response->ping();
    summary.add(result);
    if (output.json) {
      object line = to_json(result);
      line["seq"] = summary.sent();
      print(output, line);
    } else {
      output.out << ping_line(result, options.call.node(), summary.sent(), options.call.bytes(),
                              timeout_ms)
                 << std::flush;
    }
    if (!output.out) break;  // nobody can see any more of it
  }
  if (output.json)
    print(output, {{"summary", summary.json()}});
  else
    output.out << summary.text(options.call.node());
  return summary.sent() == 0 || summary.lost() > 0 ? 1 : 0;
}

Result<int> trace(Client& client, const mtlink::control::Trace& call, const Output& output) {
  Request request;
  *request.mutable_trace() = call;
  const auto timeout = std::chrono::milliseconds(call.timeout_ms()) + kGrace;
  if (!output.json)
    output.out << fmt::format("path to node {}, {} hops at most\n", call.node(), call.max_hops());
  array hops;
  for (auto response = client.call(request, timeout);; response = client.receive(timeout)) {
    if (!response) return response.error();
    if (!response->has_trace()) return wrong_answer();
    const auto& hop = response->trace();
    if (output.json)
      hops.push_back(to_json(hop));
    else
      output.out << hop_line(hop) << std::flush;
    if (!hop.last()) continue;
    const bool reached = hop.result().outcome() == mtlink::control::PingResult::REPLY;
    if (output.json)
      print(output, {{"node", call.node()}, {"reached", reached}, {"hops", hops}});
    else if (!reached)
      output.out << fmt::format("node {} was not reached\n", call.node());
    return reached ? 0 : 1;
  }
}

Result<int> stats(Client& client, bool check, const Output& output) {
  const auto node = get_node(client);
  if (!node) return node.error();
  const auto all = books(*node);
  const auto wrong = std::count_if(all.begin(), all.end(),
                                   [](const Book& book) { return book.difference() != 0; });
  if (output.json) {
    array list;
    for (const auto& book : all) list.push_back(book_json(book));
    print(output, {{"node", node->node()}, {"balanced", wrong == 0}, {"books", std::move(list)}});
  } else {
    for (const auto& book : all)
      if (!check || book.difference() != 0) output.out << describe(book) << '\n';
    output.out << (wrong == 0
                       ? fmt::format("node {}: all {} books balance\n", node->node(), all.size())
                       : fmt::format("node {}: {} of {} books do not balance\n", node->node(),
                                     wrong, all.size()));
  }
  return check && wrong > 0 ? 1 : 0;
}

Result<int> set_port(Client& client, const std::string& port, bool up, const Output& output) {
  const auto number = find_port(client, port);
  if (!number) return number.error();
  Request request;
  request.mutable_set_port()->set_port(*number);
  request.mutable_set_port()->set_up(up);
  return do_call(client, request, fmt::format("port {} is {}", port, up ? "enabled" : "disabled"),
                 output);
}

Result<int> move_port(Client& client, const std::string& port, std::uint32_t worker,
                      const Output& output) {
  const auto number = find_port(client, port);
  if (!number) return number.error();
  Request request;
  request.mutable_move_port()->set_port(*number);
  request.mutable_move_port()->set_worker(worker);
  const auto response = client.call(request);
  if (!response) return response.error();
  if (!response->has_moved()) return wrong_answer();
  const auto& moved = response->moved();
  if (output.json) {
    print(output, to_json(moved));
    return 0;
  }
  if (moved.from() == worker) {
    output.out << fmt::format("port {} is at worker {} already\n", port, worker);
    return 0;
  }
  output.out << fmt::format("port {} moved from worker {} to worker {}", port, moved.from(),
                            worker);
  std::string others;
  for (const auto other : moved.ports()) {
    if (other != *number) others += fmt::format("{}{}", others.empty() ? "" : ", ", other);
  }
  if (!others.empty()) output.out << "; with it, of the same device or trunk: " << others;
  output.out << '\n';
  return 0;
}

Result<int> balance_workers(Client& client, bool dry_run, const Output& output) {
  Request request;
  request.mutable_balance_workers()->set_dry_run(dry_run);
  const auto response = client.call(request);
  if (!response) return response.error();
  if (!response->has_balanced()) return wrong_answer();
  const auto& told = response->balanced();
  if (output.json) {
    print(output, to_json(told));
    return 0;
  }
  for (int w = 0; w < told.busy_ppm_size(); ++w) {
    output.out << fmt::format("worker {}: busy {}\n", w, share(told.busy_ppm(w), 1'000'000));
  }
  for (const auto& move : told.moves()) {
    output.out << fmt::format(
        "port {} {} from worker {} to worker {}: the busier of them {} -> {}\n",
        fmt::join(move.ports(), ", "), dry_run ? "would move" : "moved", move.from(), move.to(),
        share(move.busiest_before_ppm(), 1'000'000), share(move.busiest_after_ppm(), 1'000'000));
  }
  if (told.moves().empty()) output.out << "no move would help much\n";
  return 0;
}

Result<int> reload(Client& client, bool dry_run, const Output& output) {
  Request request;
  request.mutable_reload()->set_dry_run(dry_run);
  const auto response = client.call(request, kReloadTime);
  if (!response) return response.error();
  if (!response->has_reloaded()) return wrong_answer();
  const auto& told = response->reloaded();
  if (output.json) {
    print(output, to_json(told));
    return 0;
  }
  const auto say = [&](const auto& ports, const char* what) {
    for (const auto& port : ports)
      output.out << fmt::format("port {} ({}) {}\n", port.port(), port.name(), what);
  };
  for (const std::string& warning : told.warnings()) output.out << "warning: " << warning << '\n';
  say(told.removed(), dry_run ? "would be removed" : "removed");
  say(told.added(), dry_run ? "would be added" : "added");
  say(told.leaving(),
      "is leaving still: packets that came in on it wait on other links (mtctl show links)");
  if (told.removed().empty() && told.added().empty())
    output.out << "no port was added or removed in the file\n";
  output.out << fmt::format("{} routes {} in force\n", told.routes(), dry_run ? "would be" : "are");
  return 0;
}

Result<int> impair(Client& client, const std::string& port,
                   const mtlink::config::Impairment& impairment, const Output& output) {
  const auto number = find_port(client, port);
  if (!number) return number.error();
  Request request;
  request.mutable_set_impairment()->set_port(*number);
  *request.mutable_set_impairment()->mutable_impairment() = impairment;
  const auto what = describe(impairment);
  return do_call(client, request,
                 what.empty()
                     ? fmt::format("port {} is not impaired any more", port)
                     : fmt::format("frames that arrive at port {} are impaired: {}", port, what),
                 output);
}

Result<int> set_rate(Client& client, const std::string& port,
                     const std::optional<mtlink::config::Rate>& rate, const Output& output) {
  const auto number = find_port(client, port);
  if (!number) return number.error();
  Request request;
  request.mutable_set_rate()->set_port(*number);
  if (rate) *request.mutable_set_rate()->mutable_rate() = *rate;
  return do_call(client, request,
                 rate ? fmt::format("port {} sends {}", port, describe(*rate))
                      : fmt::format("port {} sends as fast as it can", port),
                 output);
}

Result<int> measure_workers(Client& client, bool on, const Output& output) {
  Request request;
  request.mutable_set_measuring()->set_on(on);
  return do_call(client, request,
                 on ? "workers measure where their cycles go: see show workers"
                    : "workers measure no more; show workers tells what they have",
                 output);
}

namespace {

/// The daemon's error with the file's places: of its lines, those about a field begin with the
/// field's path, and it has not seen the file.
Error placed(const Error& error, const control::Locations& locations) {
  std::string text;
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);) {
    if (!text.empty()) text += '\n';
    if (line.starts_with("routes[")) text += locations.where(line.substr(0, line.find(' ')));
    text += line;
  }
  return Error{text};
}

}  // namespace

Result<int> set_routes(Client& client, const std::string& file, const Output& output) {
  auto routes = control::load<mtlink::config::Routes>(file);
  if (!routes) return routes.error();
  Request request;
  *request.mutable_set_routes()->mutable_routes() = std::move(routes->message);
  auto done = do_call(
      client, request,
      fmt::format("routes to {} nodes are in force", request.set_routes().routes().routes_size()),
      output);
  if (!done) return placed(done.error(), routes->locations);
  return done;
}

}  // namespace mtl::tools
