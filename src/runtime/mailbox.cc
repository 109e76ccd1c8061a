#include "runtime/mailbox.h"

#include <utility>

namespace mtl::runtime {

Mailbox::~Mailbox() {
  free_all(posted_.load(std::memory_order_acquire));
  free_all(done_.load(std::memory_order_acquire));
}

void Mailbox::free_all(Command* list) {
  while (list != nullptr) delete std::exchange(list, list->next);
}

// Only pushed one by one and taken whole, so the list needs no defence against a node that comes
// back at the same address while another thread holds it (ABA).
void Mailbox::push(std::atomic<Command*>& stack, Command* command) {
  command->next = stack.load(std::memory_order_relaxed);
  while (!stack.compare_exchange_weak(command->next, command, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
}

Mailbox::Command* Mailbox::take_in_order(std::atomic<Command*>& stack) {
  Command* newest = stack.exchange(nullptr, std::memory_order_acquire);
  Command* oldest = nullptr;
  while (newest != nullptr) {
    Command* next = std::exchange(newest->next, oldest);
    oldest = std::exchange(newest, next);
  }
  return oldest;
}

void Mailbox::post(Run run, Done done) {
  push(posted_, new Command{std::move(run), std::move(done)});
}

bool Mailbox::run_all(Time now, const Done& told) {
  Command* list = take_in_order(posted_);
  if (list == nullptr) return false;
  while (list != nullptr) {
    Command* command = std::exchange(list, list->next);
    command->run(now);
    push(done_, command);
    if (told) told();
  }
  return true;
}

void Mailbox::collect() {
  Command* list = take_in_order(done_);
  while (list != nullptr) {
    Command* command = std::exchange(list, list->next);
    const Done done = std::move(command->done);
    delete command;  // first: what it captured may be what `done` gives up
    if (done) done();
  }
}

}  // namespace mtl::runtime
