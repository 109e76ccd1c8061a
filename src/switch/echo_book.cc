#include "switch/echo_book.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mtl::switchd {

std::optional<EchoBook::Key> EchoBook::add(NodeId dst, std::uint16_t number, Time deadline,
                                           Done done) {
  if (waiting_.size() >= kMaxWaiting) return std::nullopt;
  Key key{next_id_++, number};
  // kMaxWaiting is far below 2^16 ids, so a free one is near.
  while (waiting_.contains(key)) key.id = next_id_++;
  waiting_.emplace(key, Waiting{dst, deadline, std::nullopt, std::move(done)});
  return key;
}

void EchoBook::sent(Key key, Time at) {
  const auto entry = waiting_.find(key);
  if (entry != waiting_.end()) entry->second.sent = at;
}

void EchoBook::forget(Key key) {
  waiting_.erase(key);
}

void EchoBook::finish(std::map<Key, Waiting>::iterator entry, const EchoOutcome& outcome) {
  const Done done = std::move(entry->second.done);
  waiting_.erase(entry);  // first: `done` may add the next request
  done(outcome);
}

void EchoBook::answered(const Event& event) {
  const auto entry = waiting_.find(Key{event.id, event.number});
  if (entry == waiting_.end()) return;
  EchoOutcome outcome;
  outcome.from = event.from;
  if (entry->second.sent) outcome.round_trip = event.at - *entry->second.sent;
  if (event.kind == Event::Kind::kEchoReply) {
    if (event.from != entry->second.dst) return;
    outcome.kind = EchoOutcome::Kind::kReply;
  } else {
    outcome.kind = event.echo == network::EchoType::kHopLimitExceeded
                       ? EchoOutcome::Kind::kHopLimitExceeded
                       : EchoOutcome::Kind::kUnreachable;
  }
  finish(entry, outcome);
}

void EchoBook::expire(Time now) {
  std::vector<Key> overdue;
  for (const auto& [key, waiting] : waiting_) {
    if (waiting.deadline <= now) overdue.push_back(key);
  }
  for (const Key key : overdue) {
    const auto entry = waiting_.find(key);
    if (entry != waiting_.end()) finish(entry, EchoOutcome{});
  }
}

Time EchoBook::next_deadline() const {
  Time first = kNever;
  for (const auto& [key, waiting] : waiting_) first = std::min(first, waiting.deadline);
  return first;
}

}  // namespace mtl::switchd
