#include "transport/operations.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace mtl::transport {

Operations::Operations(const Settings& settings, const Limits& limits, RandomWords& random)
    : limits_(limits),
      random_(random),
      marks_(random.draw()),
      keys_(limits.keys),
      records_(limits.operations),
      sides_(settings.connections),
      receiver_(settings, limits, marks_, transport_),
      transport_(settings, random, *this) {
  assert(fault(limits, settings) == nullptr);
  for (std::uint32_t i = limits.operations; i != 0; --i) {
    records_[i - 1].next = free_;
    free_ = i - 1;
  }
  // Buckets for what peers usually allow; more of them only makes chains longer.
  const std::size_t buckets = std::bit_ceil(std::size_t{settings.reads} + 1);
  for (Side& side : sides_) {
    side.asked.assign(buckets, kNone);
    side.open.assign(std::bit_ceil(std::size_t{settings.messages} + 1), kNone);
    side.owed.resize(settings.reads);
  }
}

Operations::~Operations() = default;

std::uint32_t Operations::begun(const Connection& connection) {
  return receiver_.begin(connection);
}

void Operations::up(Connection& connection) {
  Side& s = side(connection);
  s.message_limit = MessageId{connection.terms().messages};
  queue_waiting(s, Time{});
}

void Operations::ended(Connection& connection, Time now) {
  Side& s = side(connection);
  fail_all(s, connection.end_reason(), now);
  s.oldest = s.to_pack = s.newest = kNone;
  s.posted = 0;
  s.unpacked = 0;
  s.unpacked_bytes = 0;
  s.leave_at = kNever;
  s.next_id = RequestId{};
  s.flush_first = s.flush_last = kNone;
  s.since_flush = 0;
  s.owed_head = s.owed_count = 0;
  s.report_due = false;
  s.overtaking = s.wanted_turn = false;
  s.unnumbered = s.waiting_count = s.waiting_firm = 0;
  s.next_message = s.message_limit = MessageId{};
  receiver_.ended(connection, now);
}

bool Operations::waits(const Connection& connection, Flow flow, Time now) const {
  return flow == Flow::kRequest ? waits_to_request(connection, now) : waits_to_respond(connection);
}

Time Operations::ready_at(const Connection& connection) const {
  return side(connection).leave_at;
}

bool Operations::fill(Connection& connection, Flow flow, PacketSlot& slot, std::size_t room,
                      Time now) {
  return flow == Flow::kRequest ? fill_requests(connection, slot, room, now)
                                : fill_responses(connection, slot, room, now);
}

Executed Operations::execute(Connection& connection, Flow flow, const DataBody& body, Time now) {
  return flow == Flow::kRequest ? execute_requests(connection, body, now)
                                : execute_responses(connection, body, now);
}

void Operations::acknowledged(Connection& connection, Flow flow, PacketSlot& slot, Time) {
  if (flow == Flow::kResponse && slot.owner != 0) connection.report_acknowledged();
}

void Operations::passed(Connection& connection, Flow flow, PacketSlot& slot, Time now) {
  if (flow == Flow::kRequest) pass(side(connection), slot, now);
}

void Operations::dropped(Connection&, Flow, PacketSlot&) {}

}  // namespace mtl::transport
