// Seeded runs of the transport in virtual time: nodes that store, load and count in each other's
// memory over a network that loses, doubles, marks, delays and reorders packets over several paths,
// while paths die and nodes restart; and that send each other messages (message_model.h). What is
// not idempotent must have happened exactly once, and memory must be what a model of it says.
//
// usage: transport_runs FIRST LAST [--require-kinds]      seeds; exit code 1 when a check failed,
// or
//                                                         a kind of event never happened
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/heap_pool.h"
#include "message_model.h"
#include "sim/random.h"
#include "transport/operations.h"

namespace mtl::transport {
namespace {

using namespace std::chrono_literals;
using sim::Random;

constexpr std::size_t kSlice = 2048;    ///< of a node's memory, for each node that uses it
constexpr std::size_t kOrdered = 1024;  ///< of it: stored in order; a counter first
constexpr std::size_t kSlots = 16;      ///< behind: places for what may overtake
constexpr std::size_t kSlot = 64;
constexpr EndpointId kEndpoint{1};
constexpr Partition kPartition{1};
constexpr Duration kLimit = 120s;  ///< virtual, for all of it to come to rest

struct Shape {
  explicit Shape(Random r) {
    nodes = static_cast<std::uint32_t>(r.between(2, 3));
    paths = static_cast<std::uint32_t>(r.between(1, 4));
    loss_ppm = r.chance(250'000) ? 0 : static_cast<std::uint32_t>(r.log_between(100, 200'000));
    copy_ppm = r.chance(400'000) ? 0 : static_cast<std::uint32_t>(r.log_between(100, 100'000));
    mark_ppm = r.chance(500'000) ? 0 : static_cast<std::uint32_t>(r.log_between(1'000, 300'000));
    jitter =
        Duration(r.chance(300'000) ? 1 : static_cast<std::int64_t>(r.log_between(10, 200'000)));
    delay = Duration(static_cast<std::int64_t>(r.log_between(500, 100'000)));
    operations = static_cast<std::uint32_t>(r.log_between(20, 400));
    restarts = r.chance(400'000) ? static_cast<std::uint32_t>(r.between(1, 3)) : 0;
    closes = r.chance(300'000) ? static_cast<std::uint32_t>(r.between(1, 2)) : 0;
    cuts = r.chance(300'000) ? static_cast<std::uint32_t>(r.between(1, 4)) : 0;
    faulty = r.chance(500'000);
    settings.mtu = static_cast<std::uint16_t>(r.chance(300'000) ? 128 : r.log_between(128, 9000));
    settings.window = static_cast<std::uint8_t>(r.chance(300'000) ? r.below(3) : r.between(3, 10));
    settings.send_window = static_cast<std::uint8_t>(r.between(1, 10));
    settings.reads = static_cast<std::uint16_t>(r.log_between(1, 64));
    settings.cwnd_first = static_cast<std::uint32_t>(r.between(1, 32));
    settings.spray = static_cast<std::uint32_t>(r.between(1, 8));
    settings.connections = 16;
    settings.request_packets = static_cast<std::uint32_t>(r.log_between(2, 256));
    settings.response_packets = static_cast<std::uint32_t>(r.log_between(2, 256));
    settings.packet_blocks = static_cast<std::uint32_t>(r.below(9));
    settings.held_packets = static_cast<std::uint32_t>(r.below(64));
    settings.timers.rtt_target = r.chance(200'000) ? 50us : 0us;
    limits.operations = static_cast<std::uint32_t>(r.log_between(4, 128));
    messages = static_cast<std::uint32_t>(r.log_between(5, 60));
    overtaking = r.chance(300'000);
    settings.messages = static_cast<std::uint32_t>(r.log_between(1, 64));
    settings.eager = static_cast<std::uint32_t>(r.chance(200'000) ? 0 : r.log_between(16, 8192));
    limits.receives = static_cast<std::uint32_t>(r.log_between(2, 16));
    limits.message_records = static_cast<std::uint32_t>(r.log_between(16, 256));
    limits.eager_room =
        static_cast<std::uint32_t>(r.chance(300'000) ? 0 : r.log_between(512, 65536));
  }
  std::uint32_t nodes, paths, loss_ppm, copy_ppm, mark_ppm, operations, restarts, closes, cuts;
  std::uint32_t messages;  ///< of a node to another
  Duration jitter, delay;
  bool faulty;      ///< some operations are to fail
  bool overtaking;  ///< messages without credit may be overtaken
  Settings settings;
  Limits limits;
};

class Words final : public RandomWords {
 public:
  explicit Words(Random random) : random_(random) {}
  std::uint64_t draw() override { return random_.next(); }

 private:
  Random random_;
};

using Memory = std::array<std::byte, kSlice>;

/// What one node does to its slice of another's memory, and what must come of it. Operations of a
/// connection execute in the order of posting, so the slice stands at some prefix of them.
struct Stream {
  enum class Do : std::uint8_t { kPut, kAdd, kGet, kOvertake, kFail };
  struct Op {
    Do what{};
    std::size_t at = 0;
    std::vector<std::byte> data;  ///< put; of a get what it must read
    std::uint64_t addend = 0;
    std::uint64_t expected_old = 0;  ///< of the counter
    std::uint64_t old = 0;           ///< told
    std::vector<std::byte> got;
    bool done = false;
    bool ok = false;
    bool imm = false;       ///< tells its number
    bool imm_told = false;  ///< at the other side
  };
  std::deque<Op> ops;       ///< since `base` was taken; their addresses stay
  Memory base{};            ///< the slice when the connection came up
  Memory now{};             ///< after all that was posted
  std::size_t certain = 0;  ///< so many ops were executed for certain
  std::uint32_t left = 0;   ///< to be posted
  std::uint32_t since_fence = 0;
  ConnectionHandle connection;
  bool up = false;
  bool opening = false;
  bool begun = false;  ///< `base` is of this connection
  bool lost = false;   ///< the memory is that of a node that restarted since
};

void take_effect(const Stream::Op& op, Memory& memory) {
  if (op.what == Stream::Do::kPut || op.what == Stream::Do::kOvertake) {
    std::copy(op.data.begin(), op.data.end(), memory.begin() + static_cast<std::ptrdiff_t>(op.at));
  } else if (op.what == Stream::Do::kAdd) {
    std::uint64_t value;
    std::memcpy(&value, memory.data(), sizeof value);
    value += op.addend;
    std::memcpy(memory.data(), &value, sizeof value);
  }
}

struct Node {
  std::unique_ptr<Words> words;
  std::unique_ptr<Operations> operations;
  std::vector<std::byte> memory;  ///< a slice for each node
  std::vector<Stream> streams;    ///< to each node
  Time down_until = kNever;       ///< kNever: it runs
  std::uint32_t life = 0;
};

class World {
 public:
  World(std::uint64_t seed, Kinds& kinds)
      : random_(seed),
        shape_(random_.stream("shape")),
        kinds_(kinds),
        pool_(4, 65535),
        messages_(random_.stream("messages"), shape_.nodes, shape_.messages, shape_.settings.eager,
                  kinds) {
    nodes_.resize(shape_.nodes);
    for (std::uint32_t n = 0; n < shape_.nodes; ++n) {
      nodes_[n].memory.resize(kSlice * shape_.nodes);
      nodes_[n].streams.resize(shape_.nodes);
      for (Stream& s : nodes_[n].streams) s.left = shape_.operations;
      nodes_[n].streams[n].left = 0;
      boot(n);
    }
    plan_faults();
  }

  void run() {
    while (!finished()) {
      const Time next = next_event();
      require(next <= Time{kLimit}, "it does not come to rest: " + describe());
      now_ = std::max(now_, next);
      step();
    }
    for (std::uint32_t a = 0; a < shape_.nodes; ++a) {
      for (std::uint32_t b = 0; b < shape_.nodes; ++b) {
        if (a != b) check_end(a, b);
      }
    }
    for (std::uint32_t n = 0; n < shape_.nodes; ++n) {
      messages_.take_back_all(n, *nodes_[n].operations, now_);
    }
    for (Node& n : nodes_) count(*n.operations);
  }

 private:
  struct Packet {
    std::uint32_t to;
    std::vector<std::byte> bytes;
  };
  struct Fault {
    enum class What : std::uint8_t { kRestart, kClose, kCut } what{};
    std::uint32_t node = 0;
    std::uint32_t path = 0;
    Duration lasts{0};
  };

  static Key key_of(std::uint32_t from) { return Key{0x1000 + from}; }

  void boot(std::uint32_t n) {
    Node& node = nodes_[n];
    Settings settings = shape_.settings;
    settings.node = NodeId{static_cast<std::uint16_t>(n + 1)};
    node.words = std::make_unique<Words>(random_.stream("words", n * 1000 + node.life++));
    node.operations = std::make_unique<Operations>(settings, shape_.limits, *node.words);
    require(
        static_cast<bool>(node.operations->transport().add_endpoint(kEndpoint, {.accepts = true})),
        "endpoint");
    std::fill(node.memory.begin(), node.memory.end(), std::byte{0});
    for (std::uint32_t from = 0; from < shape_.nodes; ++from) {
      const auto given = node.operations->give(
          key_of(from),
          {.memory = std::span(node.memory).subspan(from * kSlice, kSlice), .rights = 7});
      require(static_cast<bool>(given), "key");
    }
    node.down_until = kNever;
    for (Stream& s : node.streams) s.up = s.opening = s.begun = false;
  }

  void plan_faults() {
    Random r = random_.stream("faults");
    const auto at = [&] { return Time{Duration(static_cast<std::int64_t>(r.below(60'000'000)))}; };
    for (std::uint32_t i = 0; i < shape_.restarts; ++i) {
      faults_.emplace(
          at(), Fault{Fault::What::kRestart, static_cast<std::uint32_t>(r.below(shape_.nodes)), 0,
                      Duration(static_cast<std::int64_t>(r.log_between(1'000, 50'000'000)))});
    }
    for (std::uint32_t i = 0; i < shape_.closes; ++i) {
      faults_.emplace(
          at(), Fault{Fault::What::kClose, static_cast<std::uint32_t>(r.below(shape_.nodes)), 0,
                      Duration{0}});
    }
    for (std::uint32_t i = 0; i < shape_.cuts; ++i) {
      faults_.emplace(
          at(), Fault{Fault::What::kCut, 0, static_cast<std::uint32_t>(r.below(shape_.paths)),
                      Duration(static_cast<std::int64_t>(r.log_between(10'000, 200'000'000)))});
    }
  }

  bool running(std::uint32_t n) const { return nodes_[n].down_until == kNever; }

  bool finished() const {
    if (!faults_.empty()) return false;
    for (std::uint32_t a = 0; a < shape_.nodes; ++a) {
      if (!running(a) || !messages_.all_sent(a)) return false;
      for (std::uint32_t b = 0; b < shape_.nodes; ++b) {
        if (a == b) continue;
        const Stream& s = nodes_[a].streams[b];
        if (s.left != 0 || !s.begun || s.lost ||
            nodes_[a].operations->incomplete(s.connection) != 0)
          return false;
        if (s.certain != s.ops.size()) return false;
      }
    }
    return messages_.all_received();
  }

  Time next_event() const {
    Time at = in_air_.empty() ? kNever : in_air_.begin()->first;
    if (!faults_.empty()) at = std::min(at, faults_.begin()->first);
    for (const Node& n : nodes_) {
      if (n.down_until != kNever) {
        at = std::min(at, n.down_until);
      } else {
        at = std::min(at, n.operations->transport().next_deadline());
      }
    }
    return std::min(at, next_work_);
  }

  void step() {
    while (!faults_.empty() && faults_.begin()->first <= now_) {
      const Fault fault = faults_.begin()->second;
      faults_.erase(faults_.begin());
      strike(fault);
    }
    for (std::uint32_t n = 0; n < shape_.nodes; ++n) {
      if (!running(n) && nodes_[n].down_until <= now_) boot(n);
    }
    while (!in_air_.empty() && in_air_.begin()->first <= now_) {
      const Packet packet = std::move(in_air_.begin()->second);
      in_air_.erase(in_air_.begin());
      if (!running(packet.to)) continue;
      nodes_[packet.to].operations->transport().receive(packet.bytes, now_);
      settle(packet.to);
    }
    for (std::uint32_t n = 0; n < shape_.nodes; ++n) {
      if (!running(n)) continue;
      nodes_[n].operations->transport().expire(now_);
      settle(n);
    }
    if (next_work_ <= now_) {
      for (std::uint32_t n = 0; n < shape_.nodes; ++n) {
        if (running(n)) work(n);
      }
      next_work_ = now_ + Duration(static_cast<std::int64_t>(random_.log_between(1'000, 300'000)));
    }
  }

  void strike(const Fault& fault) {
    if (fault.what == Fault::What::kCut) {
      cut_until_[fault.path] = now_ + fault.lasts;
      ++kinds_["cut of a path"];
      return;
    }
    if (!running(fault.node)) return;
    Node& node = nodes_[fault.node];
    if (fault.what == Fault::What::kRestart) {
      ++kinds_["restart"];
      count(*node.operations);
      node.operations.reset();  // and all that was in it
      messages_.restarted(fault.node);
      node.down_until = now_ + fault.lasts;
      for (std::uint32_t from = 0; from < shape_.nodes; ++from) {
        // Its memory is gone, and so is what others had stored there.
        if (from != fault.node) nodes_[from].streams[fault.node].lost = true;
      }
      return;
    }
    for (std::uint32_t b = 0; b < shape_.nodes; ++b) {
      Stream& s = node.streams[b];
      if (s.up || s.opening) node.operations->transport().close(s.connection, now_);
    }
    settle(fault.node);
  }

  /// Takes events, completions and packets of a node.
  void settle(std::uint32_t n) {
    Node& node = nodes_[n];
    Operations& operations = *node.operations;
    Completion c;
    while (operations.next_completion(c)) {
      if ((c.context & MessageModel::kMessage) != 0) {
        messages_.on_completion(c);
      } else {
        on_completion(n, c);
      }
    }
    Received r;
    while (operations.next_received(r, now_)) {
      if (r.kind == Received::Kind::kWriteImm) {
        on_imm(n, r);
      } else {
        messages_.on_received(n, r);
      }
    }
    ConnectionEvent e;
    while (operations.transport().next_event(e)) on_event(n, e);
    for (;;) {
      Buffer* b = pool_.take();
      const bool made = operations.transport().next_packet(*b, now_);
      if (made) send(n, *b);
      give_back(b);
      if (!made) break;
    }
  }

  void send(std::uint32_t from, const Buffer& b) {
    const network::Header header = network::decode(b.bytes());
    require(link::packet_crc_ok(b.bytes()), "packet CRC");
    require(b.length <= shape_.settings.mtu, "a packet longer than the mtu");
    count_messages(b.bytes());
    (void)from;
    const std::uint32_t path =
        network::pick(network::path_hash(b.bytes(), NodeId{100}), shape_.paths);
    std::vector<std::byte> bytes(b.bytes().begin(), b.bytes().end());
    int copies = random_.chance(shape_.copy_ppm) ? 2 : 1;
    if (copies == 2) ++kinds_["copy"];
    const auto cut = cut_until_.find(path);
    if (cut != cut_until_.end() && cut->second > now_) return;
    for (; copies != 0; --copies) {
      if (random_.chance(shape_.loss_ppm)) {
        ++kinds_["loss"];
        continue;
      }
      if (random_.chance(shape_.mark_ppm)) {
        bytes[1] |= std::byte{network::kFlagCe};
        ++kinds_["mark"];
      }
      const auto jitter = static_cast<std::int64_t>(
          random_.below(static_cast<std::uint64_t>(shape_.jitter.count())));
      in_air_.emplace(now_ + shape_.delay * (path + 1) + Duration(jitter),
                      Packet{static_cast<std::uint32_t>(header.dst.value() - 1), bytes});
    }
  }

  /// By the first operation of each DATA.
  void count_messages(std::span<const std::byte> packet) {
    if ((packet[network::kHeader] >> 4) != std::byte{3}) return;
    const std::byte* body = packet.data() + kBodyAt;
    const auto opcode = static_cast<Opcode>(body[0]);
    if (opcode == Opcode::kReport && body[9] == static_cast<std::byte>(Status::kHeld)) {
      ++kinds_["SEND that was held"];
    }
    if (opcode == Opcode::kSendData && body[1] == std::byte{kWanted}) ++kinds_["wanted data"];
    if (opcode == Opcode::kSendData && body[1] == std::byte{0}) ++kinds_["eager data"];
    if (opcode == Opcode::kCancel) ++kinds_["CANCEL"];
    if (opcode == Opcode::kCredit) ++kinds_["CREDIT"];
    if (opcode == Opcode::kWant) ++kinds_["WANT"];
    if (opcode == Opcode::kDone) ++kinds_["DONE"];
  }

  std::span<std::byte> slice(std::uint32_t a, std::uint32_t b) {
    return std::span(nodes_[b].memory).subspan(a * kSlice, kSlice);
  }

  // ---- what happens ----

  void on_event(std::uint32_t n, const ConnectionEvent& e) {
    const auto peer = static_cast<std::uint32_t>(e.peer.node.value() - 1);
    Stream& s = nodes_[n].streams[peer];
    if (e.what == ConnectionEvent::What::kUp) {
      ++kinds_["up"];
      nodes_[n].operations->let_overtake(e.connection, shape_.overtaking);
      // One that the peer opened serves as well: either side may use either.
      if (s.up || (s.opening && s.connection != e.connection)) return;
      s.connection = e.connection;
      s.up = true;
      s.opening = s.begun = false;
      return;
    }
    ++kinds_[std::string("end ") + name(e.reason)];
    require(e.reason != EndReason::kProtocol, "a peer that broke T16");
    messages_.connection_ended(n, e.connection);
    if (s.connection == e.connection) s.up = s.opening = s.begun = false;
  }

  /// Both sides are UP: from here on nothing executes that was sent on an earlier connection (T6).
  bool joined(std::uint32_t a, std::uint32_t b) {
    if (!running(b)) return false;
    const Connection* ours =
        nodes_[a].operations->transport().find(nodes_[a].streams[b].connection);
    const Connection* theirs =
        nodes_[b].operations->transport().find(nodes_[b].streams[a].connection);
    return ours != nullptr && theirs != nullptr && ours->state() == State::kUp &&
           theirs->state() == State::kUp && ours->peer_id() == theirs->id() &&
           theirs->peer_id() == ours->id();
  }

  /// The connection is new: what the one before left is at some prefix of what was posted on it.
  void begin_stream(std::uint32_t a, std::uint32_t b) {
    Stream& s = nodes_[a].streams[b];
    check_prefix(a, b);
    const auto memory = slice(a, b);
    std::copy(memory.begin(), memory.end(), s.base.begin());
    s.now = s.base;
    s.ops.clear();
    s.certain = 0;
    s.since_fence = 0;
    s.begun = true;
  }

  void check_prefix(std::uint32_t a, std::uint32_t b) {
    Stream& s = nodes_[a].streams[b];
    const auto memory = slice(a, b);
    if (s.lost) {
      // It began anew, empty; and nothing old may have executed there since.
      for (const std::byte each : memory) {
        require(each == std::byte{0}, "old operations executed after a restart");
      }
      s.lost = false;
      return;
    }
    Memory model = s.base;
    std::size_t done = 0;
    for (;;) {
      if (done >= s.certain && matches(model, memory, s, done)) return;
      if (done == s.ops.size()) break;
      if (done >= s.certain && partly(model, memory, s, done)) return;
      take_effect(s.ops[done++], model);
    }
    throw Failed("memory is at no prefix of what was posted, of node " + std::to_string(a) +
                 " at node " + std::to_string(b));
  }

  /// A long put is several operations on the wire: the first of them may have executed alone.
  bool partly(Memory model, std::span<const std::byte> memory, const Stream& s, std::size_t done) {
    const Stream::Op& op = s.ops[done];
    if (op.what != Stream::Do::kPut) return false;
    for (std::size_t i = 0; i < op.data.size(); ++i) {
      model[op.at + i] = op.data[i];
      if (model[op.at + i] != memory[op.at + i]) return false;
      if (!matches(model, memory, s, done)) continue;
      ++kinds_["put of which a part was executed"];
      return true;
    }
    return false;
  }

  /// What may overtake may be ahead of the rest; each of its places holds what some op stored.
  static bool matches(const Memory& model, std::span<const std::byte> memory, const Stream& s,
                      std::size_t done) {
    if (!std::equal(memory.begin(), memory.begin() + kOrdered, model.begin())) return false;
    for (std::size_t at = kOrdered; at < kSlice; at += kSlot) {
      bool found = std::equal(memory.begin() + static_cast<std::ptrdiff_t>(at),
                              memory.begin() + static_cast<std::ptrdiff_t>(at + kSlot),
                              model.begin() + static_cast<std::ptrdiff_t>(at));
      for (std::size_t i = done; !found && i < s.ops.size(); ++i) {
        const Stream::Op& op = s.ops[i];
        found = op.what == Stream::Do::kOvertake && op.at == at &&
                std::equal(op.data.begin(), op.data.end(),
                           memory.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (!found) return false;
    }
    return true;
  }

  void on_completion(std::uint32_t n, const Completion& c) {
    const auto peer = static_cast<std::uint32_t>(c.peer.node.value() - 1);
    Stream& s = nodes_[n].streams[peer];
    require(c.age >= Duration{0}, "age");
    if (c.ended != EndReason::kNone) {
      ++kinds_["operation that failed with its connection"];
      return;
    }
    if (c.connection != s.connection) return;  // of a connection that was replaced meanwhile
    require(c.context < s.ops.size(), "a completion of nothing that was posted");
    Stream::Op& op = s.ops[static_cast<std::size_t>(c.context)];
    require(!op.done, "a second completion");
    op.done = true;
    op.ok = c.ok();
    s.certain = std::max(s.certain, static_cast<std::size_t>(c.context) + 1);
    if (op.what == Stream::Do::kFail) {
      require(c.status == Status::kBadKey || c.status == Status::kOutOfBounds,
              "a fault without status");
      ++kinds_["operation that failed at the peer"];
      return;
    }
    require(c.ok(), std::string("status ") + name(c.status));
    if (op.what == Stream::Do::kAdd) {
      require(op.old == op.expected_old, "fetch-add executed not exactly once");
      ++kinds_["fetch-add"];
    }
    if (op.what == Stream::Do::kGet) {
      require(op.got == op.data, "a get that reads something else");
      ++kinds_["get"];
    }
    if (op.what == Stream::Do::kPut) ++kinds_["put"];
    require(!op.imm || op.imm_told, "a put that is complete, and its imm was not told");
    if (op.what == Stream::Do::kOvertake) ++kinds_["put that may overtake"];
  }

  /// Node `n` is told the imm of a put: its number, of whom it is being known. All up to it is
  /// stored.
  void on_imm(std::uint32_t n, const Received& r) {
    const auto from = static_cast<std::uint32_t>(r.peer.node.value() - 1);
    Stream& s = nodes_[from].streams[n];
    const Connection* c =
        running(from) ? nodes_[from].operations->transport().find(s.connection) : nullptr;
    if (!s.begun || c == nullptr || c->state() != State::kUp) return;
    const Connection* ours = nodes_[n].operations->transport().find(r.connection);
    if (ours == nullptr || c->peer_id() != ours->id() || ours->peer_id() != c->id()) return;
    require(r.imm < s.ops.size(), "an imm of nothing that was posted");
    Stream::Op& op = s.ops[static_cast<std::size_t>(r.imm)];
    require(op.imm && !op.imm_told, "an imm told twice");
    op.imm_told = true;
    s.certain = std::max(s.certain, static_cast<std::size_t>(r.imm) + 1);
    ++kinds_["imm of a put"];
  }

  void check_end(std::uint32_t a, std::uint32_t b) {
    Stream& s = nodes_[a].streams[b];
    const auto memory = slice(a, b);
    require(std::equal(memory.begin(), memory.end(), s.now.begin()),
            "memory is not what was stored, of node " + std::to_string(a) + " at node " +
                std::to_string(b));
  }

  // ---- what is done ----

  void work(std::uint32_t a) {
    if (random_.chance(700'000)) messages_.post_receives(a, *nodes_[a].operations, now_);
    for (std::uint32_t b = 0; b < shape_.nodes; ++b) {
      if (a == b) continue;
      Stream& s = nodes_[a].streams[b];
      if (!s.up) {
        if (!s.opening) open(a, b);
        continue;
      }
      if (!s.begun && !joined(a, b)) continue;
      if (!s.begun) begin_stream(a, b);
      const std::uint64_t burst = random_.log_between(1, 40);
      for (std::uint64_t i = 0; i < burst && s.left + messages_.left(a, b) != 0; ++i) {
        const bool message = random_.below(s.left + messages_.left(a, b)) >= s.left;
        if (message ? !post_message(a, b) : !post(a, b)) break;
      }
    }
    settle(a);
  }

  void open(std::uint32_t a, std::uint32_t b) {
    Stream& s = nodes_[a].streams[b];
    const auto handle = nodes_[a].operations->transport().open(
        kEndpoint, {NodeId{static_cast<std::uint16_t>(b + 1)}, kEndpoint, kPartition}, 0, now_);
    if (!handle) return;  // the peer's is UP already, and will be told of
    s.connection = *handle;
    s.opening = true;
  }

  bool post_message(std::uint32_t a, std::uint32_t b) {
    return messages_.post(a, b, nodes_[a].streams[b].connection, *nodes_[a].operations, now_);
  }

  bool post(std::uint32_t a, std::uint32_t b) {
    Stream& s = nodes_[a].streams[b];
    const std::size_t index = s.ops.size();
    s.ops.emplace_back();
    Stream::Op& op = s.ops.back();
    Work w{.context = index, .key = key_of(a)};
    draw(s, op, w);
    w.imm = index;
    if (nodes_[a].operations->post(s.connection, w, now_) != Posted::kTaken) {
      s.ops.pop_back();
      ++kinds_["post that found no room"];
      return false;
    }
    take_effect(op, s.now);
    s.since_fence = (w.flags & kFence) != 0 ? 0 : s.since_fence;
    if (op.what == Stream::Do::kOvertake) ++s.since_fence;
    --s.left;
    return true;
  }

  void draw(Stream& s, Stream::Op& op, Work& w) {
    std::uint64_t kind = random_.below(shape_.faulty ? 100 : 97);
    if (kind < 40) {
      op.what = Stream::Do::kPut;
      op.at = 8 + random_.below(kOrdered - 8);
      const std::uint64_t most =
          std::min<std::uint64_t>(kOrdered - op.at, random_.chance(300'000) ? kOrdered : 16);
      op.data = bytes(random_.between(1, most));
      w.offset = op.at;
      w.from = op.data;
      if (random_.chance(300'000) && op.data.size() <= kMaxInjected) w.flags |= kInject;
      if (random_.chance(400'000)) w.flags |= kMayWait;
      if (random_.chance(50'000)) w.flags |= kFence;
      op.imm = !shape_.overtaking && random_.chance(100'000);  // so puts stay in order
      if (op.imm) w.flags |= kWithImm;
    } else if (kind < 65) {
      op.what = Stream::Do::kAdd;
      op.addend = random_.next();
      std::memcpy(&op.expected_old, s.now.data(), sizeof op.expected_old);
      w.kind = Work::Kind::kFetchAtomic;
      w.op = AtomicOp::kAdd;
      w.type = AtomicType::kU64;
      w.from = std::as_bytes(std::span(&op.addend, 1));
      w.to = std::as_writable_bytes(std::span(&op.old, 1));
    } else if (kind < 80) {
      op.what = Stream::Do::kGet;
      op.at = random_.below(kOrdered - 64);
      const std::size_t size = random_.between(0, 64);
      op.data.assign(s.now.begin() + static_cast<std::ptrdiff_t>(op.at),
                     s.now.begin() + static_cast<std::ptrdiff_t>(op.at + size));
      op.got.resize(size);
      w.kind = Work::Kind::kGet;
      w.offset = op.at;
      w.to = op.got;
    } else if (kind < 97) {
      op.what = Stream::Do::kOvertake;
      // A place is used again only behind a fence: of two for one place either may come last.
      if (s.since_fence == kSlots) w.flags |= kFence;
      const std::size_t slot = s.since_fence % kSlots;
      op.at = kOrdered + slot * kSlot;
      op.data = bytes(kSlot);
      w.offset = op.at;
      w.from = op.data;
      w.flags |= kMayOvertake;
    } else {
      op.what = Stream::Do::kFail;
      op.data = bytes(8);
      w.from = op.data;
      w.offset = kSlice - 4;
      if (random_.chance(500'000)) w.key = Key{0xBAD};
    }
  }

  std::vector<std::byte> bytes(std::size_t size) {
    std::vector<std::byte> all(size);
    for (std::byte& each : all) each = static_cast<std::byte>(random_.next());
    return all;
  }

  void count(const Operations& operations) {
    const Counters& c = operations.transport().counters();
    kinds_["DATA sent again"] += c.data_again.get();
    kinds_["DATA that came early"] += c.data_early.get();
    kinds_["time-out"] += c.time_outs.get();
    for (std::size_t i = 0; i < kDropInfo.size(); ++i) {
      if (kDropInfo[i].layer != DropLayer::kTransport) continue;
      const std::uint64_t n = c.drops.get(static_cast<Drop>(i));
      if (n != 0) kinds_["dropped, " + std::string(kDropInfo[i].name)] += n;
    }
  }

  std::string describe() const {
    std::string text;
    for (std::uint32_t a = 0; a < shape_.nodes; ++a) {
      for (std::uint32_t b = 0; b < shape_.nodes; ++b) {
        if (a == b) continue;
        const Stream& s = nodes_[a].streams[b];
        text += std::to_string(a) + "->" + std::to_string(b) + " left " + std::to_string(s.left) +
                " up " + std::to_string(s.up) + " opening " + std::to_string(s.opening) +
                " messages left " + std::to_string(messages_.left(a, b)) + " open " +
                std::to_string(messages_.open(a)) + " certain " + std::to_string(s.certain) +
                " of " + std::to_string(s.ops.size());
        const Connection* c =
            running(a) ? nodes_[a].operations->transport().find(s.connection) : nullptr;
        if (c != nullptr) {
          const SendFlow& out = c->sending(Flow::kRequest);
          const SendFlow& back = c->sending(Flow::kResponse);
          text += std::string(" (") + name(c->state()) + " as " + std::to_string(c->id().value()) +
                  " to " + std::to_string(c->peer_id().value()) + ", begun " +
                  std::to_string(s.begun) + ", lost " + std::to_string(s.lost) + ", incomplete " +
                  std::to_string(nodes_[a].operations->incomplete(s.connection)) + ", unpassed " +
                  std::to_string(out.next().since(out.oldest())) + " in flight " +
                  std::to_string(out.in_flight()) + ", of responses " +
                  std::to_string(back.next().since(back.oldest())) + " in flight " +
                  std::to_string(back.in_flight()) + ")";
        }
        text += "; ";
      }
    }
    return text;
  }

  Random random_;
  const Shape shape_;
  Kinds& kinds_;
  HeapPool pool_;
  std::vector<Node> nodes_;
  std::multimap<Time, Packet> in_air_;
  std::multimap<Time, Fault> faults_;
  std::map<std::uint32_t, Time> cut_until_;
  Time next_work_{};
  Time now_{};
  MessageModel messages_;
};

/// What must have happened in a run of many seeds.
constexpr std::array kRequired{"loss",
                               "copy",
                               "mark",
                               "restart",
                               "cut of a path",
                               "up",
                               "end closed",
                               "end peer_close",
                               "end peer_restart",
                               "DATA sent again",
                               "DATA that came early",
                               "time-out",
                               "fetch-add",
                               "get",
                               "put",
                               "put that may overtake",
                               "operation that failed at the peer",
                               "operation that failed with its connection",
                               "post that found no room",
                               "message sent eagerly",
                               "message offered",
                               "message received",
                               "message that was cut",
                               "message received after its connection",
                               "message that failed with its connection",
                               "receive that failed with its connection",
                               "receive that found no room",
                               "receive taken back",
                               "send told too_long",
                               "send taken back",
                               "SEND that was held",
                               "eager data",
                               "wanted data",
                               "imm of a put",
                               "CANCEL",
                               "CREDIT",
                               "WANT",
                               "DONE",
                               "dropped, duplicate",
                               "dropped, no_room",
                               "dropped, no_connection",
                               "dropped, not_up"};

int run(std::uint64_t first, std::uint64_t last, bool require_kinds) {
  Kinds kinds;
  int failures = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    try {
      World(seed, kinds).run();
    } catch (const Failed& failed) {
      std::printf("FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), failed.what());
      ++failures;
    }
  }
  for (const auto& [kind, count] : kinds) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(count), kind.c_str());
  }
  for (const char* kind : kRequired) {
    if (!require_kinds || kinds.count(kind) != 0) continue;
    std::printf("FAILED: never happened: %s\n", kind);
    ++failures;
  }
  std::printf("%llu runs, %d failures\n", static_cast<unsigned long long>(last - first + 1),
              failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mtl::transport

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4 || (argc == 4 && std::strcmp(argv[3], "--require-kinds") != 0)) {
    std::fprintf(stderr, "usage: transport_runs FIRST LAST [--require-kinds]\n");
    return 2;
  }
  return mtl::transport::run(std::strtoull(argv[1], nullptr, 10),
                             std::strtoull(argv[2], nullptr, 10), argc == 4);
}
