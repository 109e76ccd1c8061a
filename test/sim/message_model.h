#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/random.h"
#include "transport/operations.h"

namespace mtl::transport {

/// Kinds of events, each of which must happen in some run.
using Kinds = std::map<std::string, std::uint64_t>;

class Failed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool ok, const std::string& what) {
  if (!ok) throw Failed(what);
}

/// The messages that the nodes of a run send to each other, and what must come of them: each is
/// received once, or reported as failed; what is received is what was sent, for a receive that its
/// tag suits; those of a connection and tag meet receives in the order of both; each receive ends.
/// A message is known by its imm.
class MessageModel {
 public:
  static constexpr std::uint64_t kMessage = std::uint64_t{1} << 63;  ///< in contexts

  MessageModel(sim::Random random, std::uint32_t nodes, std::uint32_t messages, std::uint32_t eager,
               Kinds& kinds)
      : random_(random), eager_(eager), kinds_(kinds), nodes_(nodes) {
    for (Node& n : nodes_) n.left.assign(nodes, messages);
    for (std::uint32_t n = 0; n < nodes; ++n) nodes_[n].left[n] = 0;
  }

  // ---- sending ----

  bool all_sent(std::uint32_t from) const {
    for (const std::uint32_t left : nodes_[from].left) {
      if (left != 0) return false;
    }
    return nodes_[from].open == 0;
  }
  std::uint32_t left(std::uint32_t from, std::uint32_t to) const { return nodes_[from].left[to]; }
  std::uint32_t open(std::uint32_t from) const { return nodes_[from].open; }

  /// Posts one; false: there was no room.
  bool post(std::uint32_t from, std::uint32_t to, ConnectionHandle connection,
            Operations& operations, Time now) {
    if (random_.chance(60'000)) take_back_one(from, operations, now);
    const std::uint64_t id = messages_.size();
    Message& m = messages_.emplace_back();
    m.from = from;
    m.to = to;
    m.connection = connection;
    m.life = nodes_[to].life;
    m.data = bytes(random_.chance(100'000) ? 0 : random_.log_between(1, 6000));
    m.tagged = random_.chance(500'000);
    m.tag = random_.below(4);
    m.confirm = random_.chance(250'000);
    Work w{.kind = Work::Kind::kSend, .flags = kWithImm, .context = kMessage | id, .from = m.data};
    w.imm = id;
    if (m.tagged) {
      w.flags |= kTagged;
      w.tag = m.tag;
    }
    if (m.confirm) w.flags |= kConfirm;
    if (random_.chance(150'000)) w.flags |= kOffered;
    if (random_.chance(100'000) && m.data.size() <= kMaxInjected) w.flags |= kInject;
    if (random_.chance(200'000)) w.flags |= kMayWait;
    if (random_.chance(30'000)) w.flags |= kFence;
    if (operations.post(connection, w, now) != Posted::kTaken) {
      messages_.pop_back();
      return false;
    }
    const bool offered = !m.data.empty() && ((w.flags & kOffered) != 0 || m.data.size() > eager_);
    ++kinds_[offered ? "message offered" : "message sent eagerly"];
    --nodes_[from].left[to];
    ++nodes_[from].open;
    if (random_.chance(60'000)) {
      ++kinds_["send to be taken back"];
      require(operations.cancel(connection, kMessage | id, now), "a send that is not found");
    }
    return true;
  }

  void on_completion(const Completion& c) {
    require((c.context & ~kMessage) < messages_.size(), "a completion of no message");
    Message& m = messages_[c.context & ~kMessage];
    require(!m.done, "a second completion of a message");
    m.done = true;
    --nodes_[m.from].open;
    if (c.ended != EndReason::kNone) {
      ++kinds_["message that failed with its connection"];
      return;
    }
    m.taken_back = c.status == Status::kCancelled;
    if (m.taken_back) {
      ++kinds_["send taken back"];
      require(!m.delivered, "a message that was taken back, and received");
      return;
    }
    require(c.ok() || c.status == Status::kTooLong,
            std::string("status of a message: ") + name(c.status));
    if (!c.ok()) ++kinds_["send told too_long"];
    m.executed = true;
    if (m.confirm) require(m.delivered, "confirmed, and not received");
    if (m.confirm) require(m.cut == !c.ok(), "confirmed with the wrong status");
  }

  // ---- receiving ----

  /// Some receives; one of each sort suits any message, so that all comes to an end.
  void post_receives(std::uint32_t n, Operations& operations, Time now) {
    Node& node = nodes_[n];
    while (node.waiting < 2 || (node.waiting < 8 && random_.chance(500'000))) {
      const std::uint64_t context = receives_.size();
      Receiving& r = receives_.emplace_back();
      r.node = n;
      r.life = node.life;
      r.tagged = !node.any_tag || (node.any_plain && random_.chance(500'000));
      const bool any = r.tagged && (!node.any_tag || random_.chance(300'000));
      r.tag = any ? 0 : random_.below(4);
      r.ignore = any ? ~std::uint64_t{0} : random_.below(4);
      r.memory.assign(random_.chance(200'000) ? random_.below(64) : 6000, std::byte{0xEE});
      const ReceivePosted posted = operations.post_receive(0,
                                                           {.context = context,
                                                            .to = r.memory,
                                                            .tagged = r.tagged,
                                                            .tag = r.tag,
                                                            .ignore = r.ignore},
                                                           now);
      if (posted != ReceivePosted::kTaken) {
        require(posted == ReceivePosted::kFull, "a receive that is not taken");
        ++kinds_["receive that found no room"];
        receives_.pop_back();
        return;
      }
      ++node.waiting;
      r.any = any;
      if (any) node.any_tag = true;
      if (!r.tagged) node.any_plain = true;
      if (random_.chance(50'000) && operations.cancel_receive(0, context)) {
        ++kinds_["receive taken back"];
      }
    }
  }

  void on_received(std::uint32_t n, const Received& got) {
    require(got.context < receives_.size(), "a receive that was not posted");
    Receiving& r = receives_[got.context];
    require(!r.done && r.node == n && r.life == nodes_[n].life, "a receive that ends again");
    r.done = true;
    --nodes_[n].waiting;
    if (r.any) nodes_[n].any_tag = false;
    if (!r.tagged) nodes_[n].any_plain = false;
    if (got.ended != EndReason::kNone) {
      ++kinds_["receive that failed with its connection"];
      return;
    }
    if (got.status == Status::kCancelled) return;
    require(got.has_imm && got.imm < messages_.size(), "a message that was not sent");
    Message& m = messages_[got.imm];
    require(m.to == n && m.life == nodes_[n].life, "a message of an earlier life");
    require(!m.delivered, "a message received twice");
    require(!m.taken_back, "a message received that was taken back");
    m.delivered = true;
    if (m.ended) ++kinds_["message received after its connection"];
    check_contents(m, r, got);
    check_order(got.imm, m, got.context);
    ++kinds_["message received"];
  }

  // ---- nodes ----

  /// Its messages that were not complete, and its receives, are no more.
  void restarted(std::uint32_t n) {
    Node& node = nodes_[n];
    ++node.life;
    node.open = node.waiting = 0;
    node.any_tag = node.any_plain = false;
    for (Message& m : messages_) {
      if (m.from == n) m.done = m.ended = true;
    }
  }
  void connection_ended(std::uint32_t from, ConnectionHandle connection) {
    for (Message& m : messages_) {
      if (m.from == from && m.connection == connection) m.ended = true;
    }
  }

  /// Everything is complete: what was executed was received, by a node that still lives.
  bool all_received() const {
    for (const Message& m : messages_) {
      const bool due = m.executed && !m.ended && m.life == nodes_[m.to].life;
      if (due && !m.delivered) return false;
    }
    return true;
  }
  /// Each receive that is left can be taken back, and ends.
  void take_back_all(std::uint32_t n, Operations& operations, Time now) {
    for (std::size_t i = 0; i < receives_.size(); ++i) {
      const Receiving& r = receives_[i];
      if (r.done || r.node != n || r.life != nodes_[n].life) continue;
      require(operations.cancel_receive(0, i), "a receive that is lost");
    }
    Received got;
    while (operations.next_received(got, now)) on_received(n, got);
    require(nodes_[n].waiting == 0, "a receive that never ends");
  }

 private:
  /// The oldest that its sender still waits for: it has left, perhaps, and met a receive, perhaps.
  void take_back_one(std::uint32_t from, Operations& operations, Time now) {
    std::uint64_t& id = nodes_[from].oldest_open;
    while (id < messages_.size() && (messages_[id].from != from || messages_[id].done)) ++id;
    if (id == messages_.size()) return;
    if (operations.cancel(messages_[id].connection, kMessage | id, now))
      ++kinds_["send to be taken back"];
  }

  struct Message {
    std::uint32_t from = 0, to = 0, life = 0;
    ConnectionHandle connection;
    std::vector<std::byte> data;
    bool tagged = false, confirm = false;
    std::uint64_t tag = 0;
    bool done = false, executed = false, taken_back = false, delivered = false, cut = false;
    bool ended = false;  ///< its connection, or its sender
  };
  struct Receiving {
    std::uint32_t node = 0, life = 0;
    bool tagged = false, any = false, done = false;
    std::uint64_t tag = 0, ignore = 0;
    std::vector<std::byte> memory;
  };
  struct Node {
    std::vector<std::uint32_t> left;  ///< to be sent, to each
    std::uint32_t open = 0, waiting = 0, life = 0;
    std::uint64_t oldest_open = 0;  ///< no message before it is open
    bool any_tag = false, any_plain = false;
  };
  /// Messages that meet receives in their order.
  using Sequence = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool, std::uint64_t>;

  void check_contents(Message& m, const Receiving& r, const Received& got) {
    require(got.tagged == m.tagged && m.tagged == r.tagged, "a tag where none was, or none");
    if (m.tagged) {
      require(got.tag == m.tag && ((m.tag ^ r.tag) & ~r.ignore) == 0, "a tag that does not suit");
    }
    m.cut = r.memory.size() < m.data.size();
    require(got.total == m.data.size(), "total");
    require(got.length == std::min(m.data.size(), r.memory.size()), "length");
    require(got.status == (m.cut ? Status::kTooLong : Status::kOk), "status of a receive");
    require(std::equal(r.memory.begin(), r.memory.begin() + got.length, m.data.begin()),
            "other contents than were sent");
    if (m.cut) ++kinds_["message that was cut"];
  }

  void check_order(std::uint64_t message, const Message& m, std::uint64_t receive) {
    auto& sequence =
        met_[Sequence{m.from, m.to, m.connection.id.value(), m.tagged, m.tagged ? m.tag : 0}];
    const auto [at, fresh] = sequence.emplace(message, receive);
    require(fresh, "met twice");
    const auto after = std::next(at);
    require(at == sequence.begin() || std::prev(at)->second < receive, "met out of order");
    require(after == sequence.end() || after->second > receive, "met out of order");
  }

  std::vector<std::byte> bytes(std::uint64_t size) {
    std::vector<std::byte> all(size);
    std::uint64_t word = random_.next();
    for (std::byte& each : all) {
      word = word * 6364136223846793005 + 1442695040888963407;
      each = static_cast<std::byte>(word >> 56);
    }
    return all;
  }

  sim::Random random_;
  const std::uint32_t eager_;
  Kinds& kinds_;
  std::vector<Node> nodes_;
  std::deque<Message> messages_;  ///< by id
  std::deque<Receiving> receives_;
  std::map<Sequence, std::map<std::uint64_t, std::uint64_t>> met_;
};

}  // namespace mtl::transport
