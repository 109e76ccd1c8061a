#pragma once

#include <cstdint>
#include <vector>

#include "transport/message.h"
#include "transport/message_records.h"

namespace mtl::transport {

/// Which message meets which receive (T31). In a pool receives wait in the order of their posting,
/// and messages that met none in the order of their coming; one that comes meets the first receive
/// that suits, one that is posted the first message. So those of a connection, or a tag, stay in
/// order. Allocated by the constructor. One thread.
class Matching {
 public:
  static constexpr std::uint32_t kNone = Message::kNone;

  /// A receive from its post until it is taken back by its owner.
  struct Slot {
    Receive receive;
    ReceivePool pool = 0;
    std::uint32_t before = kNone;
    std::uint32_t after = kNone;  ///< of those that wait; or in the free list
    std::uint32_t next = kNone;   ///< of those that are over
    std::uint32_t before_from = kNone;
    std::uint32_t after_from = kNone;  ///< of those that wait for messages of its connection only
    std::uint64_t number = 0;          ///< of its post
    bool waits = false;
    Received received;  ///< once it is over
  };

  Matching(std::uint32_t receives, std::uint32_t pools, std::uint32_t connections,
           MessageRecords& messages);

  std::uint32_t pools() const { return static_cast<std::uint32_t>(pools_.size()); }
  Slot& operator[](std::uint32_t receive) { return slots_[receive]; }

  /// A slot for a receive, kNone when all are in use.
  std::uint32_t take(ReceivePool pool, const Receive& receive);
  void give(std::uint32_t receive);

  /// The receive that waits and that the message meets; it waits no more. kNone: none does.
  std::uint32_t meet_receive(const Message& message);
  /// The message, which met none, waits.
  void add_message(std::uint32_t message);
  /// The message that waits and that such a receive would meet, kNone.
  std::uint32_t find_message(ReceivePool pool, const Receive& receive) const;
  void remove_message(std::uint32_t message);

  /// The receive waits, having met nothing.
  void add_receive(std::uint32_t receive);
  void remove_receive(std::uint32_t receive);
  /// The oldest of those that wait, whose context is this; kNone.
  std::uint32_t find_receive(ReceivePool pool, std::uint64_t context) const;
  /// The oldest of those that wait for messages of this connection only, kNone.
  std::uint32_t find_receive_from(std::uint32_t connection) const {
    return receives_from_[connection].first;
  }

 private:
  struct List {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };
  struct Pool {
    List receives[2];  ///< that wait: without tag, with tag
    List messages[2];
  };

  static bool suits(const Receive& receive, const Message& message);
  /// Members of an item that make it part of a list.
  template <class Item>
  struct Links {
    std::uint32_t Item::*before = &Item::before;
    std::uint32_t Item::*after = &Item::after;
  };
  static constexpr Links<Slot> kFrom{&Slot::before_from, &Slot::after_from};

  template <class Items, class Item>
  static void append(List& list, Items& items, std::uint32_t index, Links<Item> links);
  template <class Items, class Item>
  static void remove(List& list, Items& items, std::uint32_t index, Links<Item> links);

  std::vector<Slot> slots_;
  std::uint32_t free_ = kNone;
  std::vector<Pool> pools_;
  std::vector<List> receives_from_;  ///< by connection
  std::uint64_t posted_ = 0;
  MessageRecords& messages_;
};

}  // namespace mtl::transport
