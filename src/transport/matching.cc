#include "transport/matching.h"

namespace mtl::transport {

Matching::Matching(std::uint32_t receives, std::uint32_t pools, std::uint32_t connections,
                   MessageRecords& messages)
    : slots_(receives), pools_(pools), receives_from_(connections), messages_(messages) {
  for (std::uint32_t i = receives; i != 0; --i) {
    slots_[i - 1].after = free_;
    free_ = i - 1;
  }
}

template <class Items, class Item>
void Matching::append(List& list, Items& items, std::uint32_t index, Links<Item> links) {
  Item& item = items[index];
  item.*links.before = list.last;
  item.*links.after = kNone;
  (list.last == kNone ? list.first : items[list.last].*links.after) = index;
  list.last = index;
}

template <class Items, class Item>
void Matching::remove(List& list, Items& items, std::uint32_t index, Links<Item> links) {
  const Item& item = items[index];
  const std::uint32_t before = item.*links.before;
  const std::uint32_t after = item.*links.after;
  (before == kNone ? list.first : items[before].*links.after) = after;
  (after == kNone ? list.last : items[after].*links.before) = before;
}

std::uint32_t Matching::take(ReceivePool pool, const Receive& receive) {
  if (free_ == kNone) return kNone;
  const std::uint32_t index = free_;
  Slot& slot = slots_[index];
  free_ = slot.after;
  slot = Slot{};
  slot.receive = receive;
  slot.pool = pool;
  slot.number = posted_++;
  return index;
}

void Matching::give(std::uint32_t receive) {
  slots_[receive].after = free_;
  free_ = receive;
}

bool Matching::suits(const Receive& receive, const Message& message) {
  if (receive.tagged && ((receive.tag ^ message.tag) & ~receive.ignore) != 0) return false;
  return !receive.from || *receive.from == message.connection;
}

std::uint32_t Matching::meet_receive(const Message& message) {
  const List& list = pools_[message.pool].receives[message.tagged ? 1 : 0];
  std::uint32_t at = list.first;
  while (at != kNone && !suits(slots_[at].receive, message)) at = slots_[at].after;
  if (at != kNone) remove_receive(at);
  return at;
}

void Matching::add_message(std::uint32_t message) {
  Message& m = messages_[message];
  m.waits = true;
  append(pools_[m.pool].messages[m.tagged ? 1 : 0], messages_, message, Links<Message>{});
}

std::uint32_t Matching::find_message(ReceivePool pool, const Receive& receive) const {
  std::uint32_t at = pools_[pool].messages[receive.tagged ? 1 : 0].first;
  while (at != kNone && !suits(receive, messages_[at])) at = messages_[at].after;
  return at;
}

void Matching::remove_message(std::uint32_t message) {
  Message& m = messages_[message];
  m.waits = false;
  remove(pools_[m.pool].messages[m.tagged ? 1 : 0], messages_, message, Links<Message>{});
}

void Matching::add_receive(std::uint32_t receive) {
  Slot& slot = slots_[receive];
  slot.waits = true;
  append(pools_[slot.pool].receives[slot.receive.tagged ? 1 : 0], slots_, receive, Links<Slot>{});
  if (slot.receive.from) append(receives_from_[slot.receive.from->index], slots_, receive, kFrom);
}

void Matching::remove_receive(std::uint32_t receive) {
  Slot& slot = slots_[receive];
  slot.waits = false;
  remove(pools_[slot.pool].receives[slot.receive.tagged ? 1 : 0], slots_, receive, Links<Slot>{});
  if (slot.receive.from) remove(receives_from_[slot.receive.from->index], slots_, receive, kFrom);
}

std::uint32_t Matching::find_receive(ReceivePool pool, std::uint64_t context) const {
  std::uint32_t found = kNone;
  for (const List& list : pools_[pool].receives) {
    std::uint32_t at = list.first;
    while (at != kNone && slots_[at].receive.context != context) at = slots_[at].after;
    if (at == kNone) continue;
    if (found == kNone || slots_[at].number < slots_[found].number) found = at;
  }
  return found;
}

}  // namespace mtl::transport
