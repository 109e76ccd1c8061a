// Two real nodes' operations on each other's memory over one connection, and a network between
// them that loses, doubles and reorders packets.
//
// The first byte, if even, makes it an honest network. Then every operation completes once, what
// gets and fetches return and in the end the memory of each is what the operations of the other, in
// their order, make it. If odd, packets of any bytes come in between, made right for the connection
// here and there: then nothing is promised but that nobody writes beside the memory that was given,
// and that what was posted ends once, if only because the network falls silent.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "base/byte_order.h"
#include "base/heap_pool.h"
#include "input.h"
#include "transport/operations.h"

namespace mtl::transport {
namespace {

using fuzz::Input;
using fuzz::require;

constexpr std::size_t kMemory = 256;  // bytes that a peer may change
constexpr std::size_t kGuard = 64;    // around them, that nobody may
constexpr std::uint32_t kMtu = 512;
constexpr std::uint32_t kBuffers = 256;
constexpr std::size_t kMostFlying = 100;
constexpr std::size_t kMostPosted = 100;
constexpr Key kKey{0x0123456789ABCDEF};

class Words final : public RandomWords {
 public:
  explicit Words(std::uint64_t first) : next_(first) {}
  std::uint64_t draw() override {
    return next_ = next_ * 6364136223846793005u + 1442695040888963407u;
  }

 private:
  std::uint64_t next_;
};

Settings settings(std::uint16_t node) {
  Settings s;
  s.node = NodeId{node};
  s.mtu = kMtu;
  s.window = 4;
  s.send_window = 4;
  s.reads = 4;
  s.messages = 4;
  s.eager = 128;
  s.connections = 4;
  s.request_packets = 32;
  s.response_packets = 32;
  s.packet_blocks = 16;
  s.held_packets = 16;
  return s;
}

Limits limits() {
  Limits l;
  l.operations = kMostPosted + 4;
  l.keys = 4;
  l.receives = 8;
  l.message_records = 16;
  l.eager_room = 4096;
  return l;
}

/// An operation's own memory, and what it means for the peer's.
struct Space {
  std::array<std::byte, kMemory> bytes{};
  std::span<std::byte> to;  ///< of `bytes`
  std::uint64_t offset = 0;
  std::vector<std::byte> expected;  ///< where it reads, before it
  std::vector<std::byte> left;      ///< where it writes, after it
};

/// A node: its operations, its memory, and a model of the peer's.
class Host {
 public:
  explicit Host(std::uint16_t node)
      : words_(node), operations_(settings(node), limits(), words_), completed_(kMostPosted) {
    std::memset(memory_.data(), 0xA5, memory_.size());
    std::memset(region().data(), 0, kMemory);
    require(static_cast<bool>(operations_.give(kKey, {.memory = region(), .rights = 7})),
            "memory can be given");
    require(
        static_cast<bool>(operations_.transport().add_endpoint(EndpointId{1}, {.accepts = true})),
        "an endpoint can be added");
  }

  Operations& operations() { return operations_; }
  std::span<std::byte> region() { return std::span(memory_).subspan(kGuard, kMemory); }
  const std::array<std::byte, kMemory>& model() const { return model_; }
  bool all_completed() const { return done_ == posted_; }
  std::size_t done() const { return done_; }

  /// Puts, adds or reads in the peer's memory.
  void post(Input& in, ConnectionHandle connection, Time now) {
    if (posted_ == kMostPosted) return;
    const std::uint8_t what = in.byte();
    Work work;
    work.context = posted_;
    work.key = kKey;
    work.offset = in.byte() % kMemory & ~std::size_t{7};
    const std::size_t length = std::min<std::size_t>(in.byte() + 1u, kMemory - work.offset);
    auto& space = spaces_.emplace_back().bytes;
    for (std::size_t i = 0; i < length; ++i) space[i] = std::byte(posted_ + i);
    switch (what & 3) {
      case 0:
        work.kind = Work::Kind::kPut;
        work.from = std::span(space).first(length);
        break;
      case 1:
        work.kind = Work::Kind::kGet;
        work.to = std::span(space).first(length);
        break;
      case 2:
        work.kind = (what & 8) != 0 ? Work::Kind::kFetchAtomic : Work::Kind::kAtomic;
        work.op = AtomicOp::kXor;
        work.type = AtomicType::kU64;
        work.from = std::span(space).first(8);
        if (work.kind == Work::Kind::kFetchAtomic) work.to = std::span(space).subspan(8, 8);
        break;
      default:
        work.kind = Work::Kind::kFlush;
    }
    if ((what & 4) != 0) work.flags = kMayWait;
    if (operations_.post(connection, work, now) != Posted::kTaken) {
      spaces_.pop_back();
      return;
    }
    ++posted_;
    // They are executed in this order: what they return is what is there now.
    Space& posted = spaces_.back();
    posted.to = work.to;
    posted.offset = work.offset;
    const auto* const there = &model_[work.offset];
    posted.expected.assign(there, there + work.to.size());
    if (work.kind == Work::Kind::kPut) {
      std::memcpy(&model_[work.offset], work.from.data(), length);
    } else if (!work.from.empty()) {
      for (std::size_t i = 0; i < 8; ++i) model_[work.offset + i] ^= work.from[i];
    }
    posted.left.assign(there, there + work.from.size());
  }

  void take_completions(bool honest) {
    Completion completion;
    while (operations_.next_completion(completion)) {
      require(completion.context < posted_, "what completes was posted");
      require(!completed_[completion.context], "it completes once");
      completed_[completion.context] = true;
      ++done_;
      if (!honest) continue;
      require(completion.status == Status::kOk && completion.ended == EndReason::kNone,
              "on an honest network it succeeds");
      check_returned(completion.context);
    }
  }

  /// T29: what is short was read when it was executed, of what is longer each byte then or later.
  void check_returned(std::uint64_t context) const {
    const Space& space = spaces_[context];
    for (std::size_t i = 0; i < space.to.size(); ++i) {
      bool right = space.to[i] == space.expected[i];
      if (space.to.size() <= kMaxFetch) {
        require(right, "it returns what the operations before it made");
        continue;
      }
      const std::size_t at = space.offset + i;
      for (std::uint64_t later = context + 1; later < posted_ && !right; ++later) {
        const Space& change = spaces_[later];
        right = at >= change.offset && at - change.offset < change.left.size() &&
                space.to[i] == change.left[at - change.offset];
      }
      require(right, "it returns what the operations before it made, or later ones");
    }
  }

  void check_guards() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      require(memory_[i] == std::byte{0xA5} && memory_[kGuard + kMemory + i] == std::byte{0xA5},
              "nobody writes beside the memory that was given");
    }
  }

 private:
  Words words_;
  std::array<std::byte, kGuard + kMemory + kGuard> memory_;
  std::array<std::byte, kMemory> model_{};
  std::deque<Space> spaces_;  ///< of operations, by context
  Operations operations_;
  std::vector<bool> completed_;
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
};

class Pair {
 public:
  explicit Pair(bool honest) : honest_(honest), pool_(kBuffers, kMtu) {
    const auto opened = hosts_[0].operations().transport().open(
        EndpointId{1}, {NodeId{2}, EndpointId{1}, Partition{0}}, 0, now_);
    require(static_cast<bool>(opened), "a connection can be opened");
    connections_[0] = *opened;
    have_[0] = true;
    pull();
  }

  void step(Input& in) {
    const std::uint8_t op = in.byte();
    const std::size_t side = op >> 3 & 1;
    switch (op & 7) {
      case 0:
      case 1:
        if (have_[side]) hosts_[side].post(in, connections_[side], now_);
        break;
      case 2:
      case 3:
      case 4:
        for (unsigned i = 0; i <= (op >> 4u); ++i) arrive(side);
        break;
      case 5:
        pass_time(disturbed_time(Duration{std::int64_t{in.byte()} << (op >> 4)}));
        break;
      case 6:
        disturb(in, side);
        break;
      default:
        if (!honest_) inject(in, side);
    }
    look();
  }

  /// The network is well again: everything completes.
  void settle() {
    const int patience = honest_ ? 20'000 : 100;
    for (int i = 0; i < patience && !at_rest(); ++i) {
      for (std::size_t side = 0; side < 2; ++side) {
        while (!flying_[side].empty()) arrive(side);
      }
      look();
      pass_time(std::chrono::microseconds(100));
      look();
    }
    if (!honest_) return fall_silent();
    require(at_rest(), "on an honest network everything completes");
    for (std::size_t side = 0; side < 2; ++side) {
      require(
          std::memcmp(hosts_[1 - side].region().data(), hosts_[side].model().data(), kMemory) == 0,
          "memory is what the operations in their order make it");
    }
  }

 private:
  using Packet = std::vector<std::byte>;

  /// Nothing arrives any more. Whatever was forged, a peer that is not heard for peer_timeout
  /// (5 s) ends the connection, and with it what was posted.
  void fall_silent() {
    for (Duration time{0}; time < kSilence; time += kSilenceStep) {
      for (auto& flying : flying_) flying.clear();
      pass_time(kSilenceStep);
      look();
    }
    for (const Host& host : hosts_) {
      require(host.all_completed(), "what was posted ends when the connection does");
    }
  }

  bool at_rest() const {
    return have_[1] && hosts_[0].all_completed() && hosts_[1].all_completed();
  }

  void look() {
    pull();
    for (std::size_t side = 0; side < 2; ++side) {
      ConnectionEvent event;
      while (hosts_[side].operations().transport().next_event(event)) {
        if (event.what == ConnectionEvent::What::kUp) {
          connections_[side] = event.connection;
          have_[side] = true;
        } else {
          require(!honest_, "an honest network keeps the connection");
        }
      }
      hosts_[side].take_completions(honest_);
      hosts_[side].check_guards();
    }
    pull();
  }

  /// A connection dies when it hears nothing for 5 s: an honest network is disturbed for less, by
  /// whatever input.
  Duration disturbed_time(Duration time) const {
    return honest_ ? std::min<Duration>(time, Time(kLongestDisturbed) - now_) : time;
  }

  void pass_time(Duration time) {
    now_ += time;
    for (Host& host : hosts_) {
      for (int i = 0; host.operations().transport().next_deadline() <= now_; ++i) {
        require(i < 1000, "timers come to an end");
        host.operations().transport().expire(now_);
      }
    }
  }

  void pull() {
    for (std::size_t side = 0; side < 2; ++side) {
      for (int i = 0;; ++i) {
        require(i < 1000, "one event makes boundedly many packets");
        Buffer* out = pool_.take();
        const bool made = hosts_[side].operations().transport().next_packet(*out, now_);
        if (made) {
          require(out->length <= kMtu, "no packet is longer than the peer takes");
          require(link::packet_crc_ok(out->bytes()), "a packet has its CRC");
          const auto bytes = out->bytes();
          if (flying_[side].size() < kMostFlying) {
            flying_[side].emplace_back(bytes.begin(), bytes.end());
          }
        }
        give_back(out);
        if (!made) break;
      }
    }
  }

  void arrive(std::size_t from) {
    if (flying_[from].empty()) return;
    const Packet packet = std::move(flying_[from].front());
    flying_[from].pop_front();
    hosts_[1 - from].operations().transport().receive(packet, now_);
    pull();
  }

  void disturb(Input& in, std::size_t side) {
    auto& flying = flying_[side];
    if (flying.empty()) return;
    const std::uint8_t what = in.byte();
    const auto at = flying.begin() + in.byte() % static_cast<std::ptrdiff_t>(flying.size());
    switch (what % 3) {
      case 0:
        if (losses_ < kMostLosses) {
          ++losses_;
          flying.erase(at);
        }
        break;
      case 1:
        flying.push_back(Packet(*at));
        break;
      default: {
        Packet packet = std::move(*at);
        flying.erase(at);
        flying.push_back(std::move(packet));
      }
    }
  }

  /// A packet that flew, with some bytes changed, or one of any bytes; its CRC is made right, since
  /// receive() is given no other.
  void inject(Input& in, std::size_t side) {
    Packet packet;
    const std::uint8_t what = in.byte();
    if ((what & 1) != 0 && !flying_[side].empty()) {
      packet = flying_[side][in.byte() % flying_[side].size()];
      for (unsigned i = 0; i <= (what >> 6u); ++i) {
        const std::uint32_t high = in.byte();
        packet[(high << 8 | in.byte()) % packet.size()] = std::byte(in.byte());
      }
    } else {
      const auto bytes = in.bytes(in.byte() * std::size_t{2});
      packet.assign(bytes.begin(), bytes.end());
      packet.resize(std::clamp<std::size_t>(packet.size(), network::kMinPacket, kMtu));
    }
    network::seal(packet);
    flying_[side].push_back(std::move(packet));
  }

  static constexpr std::size_t kMostLosses = 200;
  static constexpr Duration kLongestDisturbed = std::chrono::seconds(2);
  static constexpr Duration kSilence = std::chrono::seconds(20);
  static constexpr Duration kSilenceStep = std::chrono::milliseconds(100);

  bool honest_;
  HeapPool pool_;
  std::array<Host, 2> hosts_{Host(1), Host(2)};
  std::array<ConnectionHandle, 2> connections_{};
  std::array<bool, 2> have_{};
  std::array<std::deque<Packet>, 2> flying_;  ///< by host that sent
  std::size_t losses_ = 0;
  Time now_{};
};

}  // namespace
}  // namespace mtl::transport

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  mtl::fuzz::Input in(data + 1, size - 1);
  mtl::transport::Pair pair((data[0] & 1) == 0);
  while (!in.empty()) pair.step(in);
  pair.settle();
  return 0;
}
