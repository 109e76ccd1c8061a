#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

#include "switch/node_host.h"

namespace mtl::switchd::test {

/// A worker of a switch that stands still once it has done what it was asked before, as in a
/// device's call that does not return; until go_on(), or as long as this lives.
class StandingStill {
 public:
  StandingStill(NodeHost& host, std::size_t worker) {
    host.host(worker).worker().post([state = state_](Time) {
      state->stands = true;
      while (!state->goes_on) std::this_thread::yield();
    });
  }
  ~StandingStill() { go_on(); }
  StandingStill(const StandingStill&) = delete;
  StandingStill& operator=(const StandingStill&) = delete;
  void until_it_does() const {
    while (!state_->stands) std::this_thread::yield();
  }
  void go_on() { state_->goes_on = true; }

 private:
  struct State {
    std::atomic<bool> stands{false}, goes_on{false};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace mtl::switchd::test
