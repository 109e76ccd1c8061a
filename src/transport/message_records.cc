#include "transport/message_records.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace mtl::transport {
namespace {

std::uint32_t share_of(std::uint32_t records, std::uint32_t connections, std::uint32_t messages) {
  if (records / connections >= messages) return messages;
  return std::max<std::uint32_t>(1, records / connections / 2);
}

}  // namespace

MessageRecords::MessageRecords(std::uint32_t records, std::uint32_t connections,
                               std::uint32_t messages)
    : messages_told_(messages),
      share_(share_of(records, connections, messages)),
      spare_(share_ == messages ? 0 : records - share_ * connections),
      messages_(messages == 0 ? 0 : records),
      sides_(connections),
      wanting_(connections) {
  assert(messages == 0 || records >= connections);
  for (std::uint32_t i = size(); i != 0; --i) {
    messages_[i - 1].next_by_id = free_;
    free_ = i - 1;
  }
  const std::size_t buckets = std::bit_ceil(std::size_t{std::min(messages, records)} + 1);
  for (Side& side : sides_) side.by_id.assign(buckets, kNone);
}

std::uint32_t MessageRecords::begin(std::uint32_t connection, MessageId first) {
  Side& side = sides_[connection];
  side.next = first;
  side.told = granted(side);
  side.opened = side.told.since(first);
  side.begun = true;
  want_more(connection);
  return side.opened;
}

void MessageRecords::end(std::uint32_t connection) {
  Side& side = sides_[connection];
  const std::uint32_t unused = std::min(side.lent, share_ + side.lent - side.used);
  side.lent -= unused;
  spare_ += unused;
  side.told = side.next;
  side.begun = false;
}

std::uint32_t MessageRecords::take(std::uint32_t connection) {
  if (!may_take(connection)) return kNone;
  Side& side = sides_[connection];
  const std::uint32_t index = free_;
  Message& m = messages_[index];
  free_ = m.next_by_id;
  m = Message{};
  m.id = side.next;
  m.connection.index = connection;
  side.next += 1;
  ++side.used;
  std::uint32_t& head = bucket(side, m.id.value());
  m.next_by_id = head;
  head = index;
  want_more(connection);
  return index;
}

/// Those that have used up all they have wait for more, each once.
void MessageRecords::want_more(std::uint32_t connection) {
  Side& side = sides_[connection];
  const std::uint32_t has = share_ + side.lent;
  if (share_ == messages_told_ || side.queued || side.used != has || has >= messages_told_) return;
  side.queued = true;
  wanting_.push(connection);
}

std::optional<std::uint32_t> MessageRecords::lend() {
  while (spare_ != 0 && !wanting_.empty()) {
    const std::uint32_t connection = wanting_.pop();
    Side& side = sides_[connection];
    side.queued = false;
    const std::uint32_t has = share_ + side.lent;
    if (!side.begun || side.used != has || has >= messages_told_) continue;
    const std::uint32_t lent = std::min({share_, spare_, messages_told_ - has});
    side.lent += lent;
    spare_ -= lent;
    return connection;
  }
  return std::nullopt;
}

void MessageRecords::unlink(std::uint32_t index) {
  const Message& m = messages_[index];
  std::uint32_t* at = &bucket(sides_[m.connection.index], m.id.value());
  while (*at != index) at = &messages_[*at].next_by_id;
  *at = m.next_by_id;
}

void MessageRecords::detach(std::uint32_t index) {
  unlink(index);
  messages_[index].outlives = true;
  ++outliving_;
}

void MessageRecords::give(std::uint32_t index) {
  Message& m = messages_[index];
  Side& side = sides_[m.connection.index];
  if (m.outlives) {
    --outliving_;
  } else {
    unlink(index);
  }
  --side.used;
  if (side.lent != 0) {
    --side.lent;
    ++spare_;
    want_more(m.connection.index);
  }
  m.kind = Message::Kind::kFree;
  m.next_by_id = free_;
  free_ = index;
}

std::uint32_t MessageRecords::find(std::uint32_t connection, std::uint32_t id) const {
  const Side& side = sides_[connection];
  std::uint32_t at = side.by_id[id & (side.by_id.size() - 1)];
  while (at != kNone && messages_[at].id.value() != id) at = messages_[at].next_by_id;
  return at;
}

bool MessageRecords::credit_due(std::uint32_t connection) const {
  const Side& side = sides_[connection];
  if (!side.begun) return false;
  const std::uint64_t moved = granted(side).since(side.told);
  return moved != 0 && (4 * moved >= side.opened || side.told == side.next);
}

MessageId MessageRecords::tell(std::uint32_t connection) {
  Side& side = sides_[connection];
  side.told = granted(side);
  return side.told;
}

}  // namespace mtl::transport
