#include "runtime/worker.h"

#include <sys/prctl.h>

#include <utility>

namespace mtl::runtime {
namespace {

/// The kernel's default of 50 us would lengthen every short sleep.
constexpr unsigned long kTimerSlackNanos = 1000;

}  // namespace

Worker::Worker(const IdleConfig& idle, ShardLoop& loop, const Clock& clock, Gate* gate)
    : loop_(loop), clock_(clock), gate_(gate), idle_(idle), ticks_([&clock] {
        return clock.ticks();
      }) {
  sleeper_.reserve(loop.shard().node().board().size());
}

void Worker::stop() {
  stop_.store(true, std::memory_order_release);
  sleeper_.ring();
}

void Worker::post(Mailbox::Run run, Mailbox::Done done) {
  mailbox_.post(std::move(run), std::move(done));
  sleeper_.ring();
}

void Worker::measure(bool on) {
  if (on && !measuring_) loop_.clear_stages();
  measuring_ = on;
}

void Worker::run() {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNanos);
  if (gate_ != nullptr) gate_->awake();
  std::uint64_t ticks = clock_.ticks();
  while (!stop_.load(std::memory_order_acquire)) {
    const Time now = clock_.at(ticks);
    if (gate_ != nullptr) gate_->enter();
    const bool commanded = mailbox_.pending();
    if (commanded) mailbox_.run_all(now, notify_);
    const bool busy = pass(now, ticks) || commanded;
    counters_.loops.add();

    const std::uint64_t ended = clock_.ticks();
    (busy ? counters_.busy_ticks : counters_.idle_ticks).add(ended - ticks);
    ticks = ended;
    const Duration rest = idle_.after_pass(busy, now, loop_.next_deadline(), loop_.has_bells());
    if (rest > Duration::zero()) {
      sleep(rest);
      ticks = clock_.ticks();
    }
  }
  if (gate_ != nullptr) gate_->enter();
  mailbox_.run_all(clock_.at(ticks), notify_);
  if (gate_ != nullptr) gate_->rest();
}

void Worker::sleep(Duration longest) {
  if (!sleeper_.prepare(loop_.media())) return;
  if (mailbox_.pending() || loop_.waiting() || stop_.load(std::memory_order_acquire)) {
    sleeper_.cancel(loop_.media());
    return;
  }
  if (gate_ != nullptr) gate_->rest();
  const std::uint64_t before = clock_.ticks();
  sleeper_.wait(loop_.media(), longest);
  const Duration slept = clock_.now() - clock_.at(before);
  counters_.sleep_ns.add(static_cast<std::uint64_t>(slept.count()));
  counters_.sleeps.add();
  if (gate_ != nullptr) gate_->awake();
}

}  // namespace mtl::runtime
