// The way through a switch at low load: two endpoints on slots of one mtswitchd, both in this
// thread, which always polls. One sends a datagram, and nothing more is sent until the other has it
// and the next interval has begun. Prints, as a line of JSON, how long the datagrams took, in ns.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "endpoint/endpoint.h"

namespace mtl {
namespace {

using namespace std::chrono_literals;
using endpoint::Datagram;
using endpoint::Endpoint;

constexpr Duration kPatience = 5s;
constexpr std::size_t kPayload = 18;  // a frame of 64 bytes

struct Options {
  std::string socket;
  std::uint64_t count = 5000;
  std::uint64_t interval_us = 200;
  int cpu = 1;
};

/// Both endpoints and what they measure.
class Hop {
 public:
  explicit Hop(const Options& options)
      : options_(options), from_(claim("a")), to_(claim("b")), taken_(options.count) {
    to_->on_datagram([this](const Datagram& datagram) {
      if (datagram.payload.size() == kPayload && load64(datagram.payload.data()) == sent_) {
        arrived_ = clock().ticks();
      }
    });
  }

  /// How long each took, in the order of time taken.
  const std::vector<std::uint64_t>& run() {
    wait_until([this] { return from_->usable() && to_->usable(); }, "the links do not come up");
    Time next = clock().now();
    for (std::uint64_t& ticks : taken_) {
      next = std::max(next + std::chrono::microseconds(options_.interval_us), clock().now());
      wait_until([&] { return clock().now() >= next; }, "the clock stands still");
      ticks = one();
    }
    std::sort(taken_.begin(), taken_.end());
    return taken_;
  }
  std::uint64_t nanos(std::uint64_t ticks) const {
    return static_cast<std::uint64_t>(static_cast<double>(ticks) * 1e9 /
                                      static_cast<double>(clock().ticks_hz()));
  }

 private:
  const runtime::Clock& clock() const { return from_->clock(); }
  std::unique_ptr<Endpoint> claim(const char* slot) const {
    auto claimed = Endpoint::claim({.control_socket = options_.socket, .name = slot});
    if (!claimed) throw std::runtime_error(claimed.error().message);
    return std::move(*claimed);
  }
  template <class Condition>
  void wait_until(Condition condition, const char* otherwise) {
    const Time end = clock().now() + kPatience;
    while (!condition()) {
      if (clock().now() > end) throw std::runtime_error(otherwise);
      from_->progress();
      to_->progress();
    }
  }
  std::uint64_t one() {
    ++sent_;
    arrived_ = 0;
    std::array<std::byte, kPayload> payload{};
    store64(payload.data(), sent_);
    const std::uint64_t began = clock().ticks();
    if (from_->send({to_->node()}, payload) != endpoint::Send::kTaken) {
      throw std::runtime_error("a datagram is not taken");
    }
    wait_until([this] { return arrived_ != 0; }, "a datagram does not arrive");
    return arrived_ - began;
  }

  const Options& options_;
  std::unique_ptr<Endpoint> from_, to_;
  std::vector<std::uint64_t> taken_;
  std::uint64_t sent_ = 0;
  std::uint64_t arrived_ = 0;
};

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    throw std::runtime_error("cannot run on CPU " + std::to_string(cpu));
  }
}

void measure(const Options& options) {
  Hop hop(options);
  const std::vector<std::uint64_t>& taken = hop.run();
  const auto at = [&](double share) {
    const auto place = static_cast<std::size_t>(share * static_cast<double>(taken.size()));
    return hop.nanos(taken[std::min(place, taken.size() - 1)]);
  };
  std::printf("{\"count\": %zu, \"min\": %" PRIu64 ", \"median\": %" PRIu64 ", \"p99\": %" PRIu64
              ", \"p999\": %" PRIu64 ", \"max\": %" PRIu64 "}\n",
              taken.size(), hop.nanos(taken.front()), at(0.5), at(0.99), at(0.999),
              hop.nanos(taken.back()));
}

}  // namespace
}  // namespace mtl

int main(int argc, char** argv) {
  mtl::Options o;
  CLI::App app{
      "sends single datagrams between slots a and b of an mtswitchd, and prints their times"};
  app.add_option("--socket", o.socket, "control socket of the mtswitchd")->required();
  app.add_option("--count", o.count, "datagrams")->check(CLI::Range(1000, 10'000'000));
  app.add_option("--interval-us", o.interval_us, "from one to the next, at least");
  app.add_option("--cpu", o.cpu, "CPU to run on");
  CLI11_PARSE(app, argc, argv);
  try {
    mtl::pin(o.cpu);
    mtl::measure(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "hop_load: %s\n", e.what());
    return 1;
  }
  return 0;
}
