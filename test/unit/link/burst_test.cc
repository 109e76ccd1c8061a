#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "link_harness.h"

// What comes in one burst does what it would do one by one.
namespace mtl::link::test {
namespace {

constexpr std::uint16_t kCapacity = 40;

/// A link that is UP and hears from its peer, with what it tells its owner written down in order.
class Told final : private Owner {
 public:
  /// `heard`: a first frame of the session has come in, and packets have been sent.
  explicit Told(bool heard = true) : pool(512, 512), link(config(), *this) {
    link.set_carrier(true, now);
    link.enable(now);
    receive({init(Harness::peer_init().nonce, kOurNonce)}, false);
    if (!heard) return;
    receive({status(Seq{0}, 0)}, false);
    for (int i = 0; i < 30; ++i) submit();
    frames_out();
    log.clear();
  }
  ~Told() {
    while (!kept.empty()) release();
  }

  static Config config() {
    Config c = Harness::base_config();
    c.capacity.fill(kCapacity);
    return c;
  }
  static std::vector<std::byte> frame(Header header, const std::vector<std::byte>& body) {
    std::vector<std::byte> f(std::max<std::size_t>(60, kFrameHeader + body.size()));
    header.length = static_cast<std::uint16_t>(body.size());
    encode_ethernet(mac(0xDD), mac(0xEE), kDefaultEtherType, f.data());
    encode(header, body, f.data() + kEthernetHeader);
    std::memcpy(f.data() + kFrameHeader, body.data(), body.size());
    return f;
  }
  static std::vector<std::byte> init(std::uint32_t nonce, std::uint32_t ours) {
    Init init = Harness::peer_init();
    init.nonce = nonce;
    init.peer_nonce = ours;
    init.capacity.fill(kCapacity);
    std::vector<std::byte> body(kInitBody);
    encode(init, body.data());
    return frame({.kind = Kind::kInit}, body);
  }
  static std::vector<std::byte> status(Seq ack, std::uint16_t more, std::uint8_t flags = 0,
                                       std::uint8_t epoch = kOurEpoch) {
    Status s;
    s.allocation.fill(CellCount{static_cast<std::uint16_t>(kCapacity + more)});
    std::vector<std::byte> body(kStatusBody);
    encode(s, body.data());
    return frame({.kind = Kind::kStatus, .epoch = epoch, .ack = ack, .flags = flags}, body);
  }

  /// The frames, in one burst or each in one of its own, all in one event.
  void receive(const std::vector<std::vector<std::byte>>& frames, bool at_once) {
    std::vector<Buffer*> burst;
    for (const auto& bytes : frames) {
      Buffer* buffer = pool.take();
      std::memcpy(buffer->data, bytes.data(), bytes.size());
      buffer->length = static_cast<std::uint32_t>(bytes.size());
      buffer->tailroom -= buffer->length;
      burst.push_back(buffer);
    }
    if (at_once) {
      link.receive(burst, now);
    } else {
      for (Buffer* buffer : burst) link.receive(buffer, now);
    }
  }
  /// What the link has to send, in hexadecimal.
  std::string frames_out() {
    std::string all;
    FrameOut out;
    while (link.next_frame(now, out)) {
      std::vector<std::byte> bytes(out.length());
      out.write(bytes.data());
      for (const std::byte b : bytes) all += "0123456789abcdef"[std::to_integer<unsigned>(b) % 16];
      all += '\n';
    }
    return all;
  }
  void submit() {
    Buffer* packet = pool.take();
    network::make_packet(*packet, {.dst = NodeId{20}, .src = NodeId{7}}, {});
    link.submit(packet, now);
  }
  void release() {
    Buffer* packet = kept.back();
    kept.pop_back();
    link.release(packet->notes.ingress_vc, packet->notes.ingress_cells, now);
    give_back(packet);
  }
  std::string counters() const {
    std::string all;
    for (std::size_t i = 0; i < kDropInfo.size(); ++i) {
      all += std::to_string(link.counters().drops.get(static_cast<Drop>(i))) + ' ';
    }
    for (const Counter& kind : link.counters().frames_in) all += std::to_string(kind.get()) + ' ';
    const Counters& c = link.counters();
    for (const Counter* each : {&c.frames_seen, &c.bytes_in, &c.packets_in, &c.packets_acked,
                                &c.packets_back, &c.held_discarded, &c.credit_stalls}) {
      all += std::to_string(each->get()) + ' ';
    }
    return all;
  }

  /// Bring-ups so far.
  unsigned ups() const { return ups_; }

  HeapPool pool;
  Time now{1ms};
  std::string log;
  std::vector<Buffer*> kept;  ///< those with an even fill: the others are let go at once
  Link link;

 private:
  void packets_in(PortId, std::span<Buffer* const> packets) override {
    for (Buffer* packet : packets) {
      const auto fill = std::to_integer<unsigned>(packet->data[kNetworkHeader]);
      log += "in " + std::to_string(fill) + " acks so far " +
             std::to_string(link.counters().packets_acked.get()) + " credit " +
             std::to_string(link.credit(Vc{0})) + ' ' + name(link.state()) + '\n';
      kept.push_back(packet);
      if (fill % 2 != 0) release();
    }
  }
  void packets_acked(PortId, std::span<Buffer* const> packets) override {
    for (std::size_t i = 0; i < packets.size(); ++i) log += "acked\n";
    give_back(packets);
  }
  void packet_back(PortId, Buffer* packet) override {
    log += "back\n";
    give_back(packet);
  }
  void link_changed(PortId) override { log += std::string("changed ") + name(link.state()) + '\n'; }
  BringUp bring_up(PortId, std::uint8_t) override {
    return {kOurNonce + ups_, static_cast<std::uint8_t>(kOurEpoch + ups_++)};
  }
  std::uint8_t ups_ = 0;
};

std::vector<std::byte> sealed(std::size_t length, std::uint8_t fill = 0) {
  std::vector<std::byte> packet(length, std::byte{fill});
  network::encode(network::Header{.dst = NodeId{7}, .src = NodeId{20}}, packet.data());
  network::seal(packet);
  return packet;
}

/// The frames of a peer that mostly does as it should.
class Peer {
 public:
  explicit Peer(std::uint32_t seed) : random_(seed) {}
  /// `calm`: the next DATA, and nothing else of note.
  std::vector<std::byte> next(bool calm) {
    if (!waiting_.empty()) {
      auto init_to_our_new_nonce = std::move(waiting_.front());
      waiting_.pop_front();
      return init_to_our_new_nonce;
    }
    const unsigned what = calm ? 20 : draw(40);
    if (what == 0) return Told::status(ack(), 8, draw(2) == 0 ? kFlagPoll : 0, epoch());
    if (what == 1) {
      return Told::frame({.kind = Kind::kNack, .epoch = epoch(), .seq = Seq{seq_}, .ack = ack()},
                         {std::byte{0}, std::byte{20}, std::byte{0}, std::byte{2}});
    }
    if (what == 2 && draw(4) == 0) return end_session();
    std::vector<std::byte> packet = sealed(60, static_cast<std::uint8_t>(seq_ % 251));
    Header header{.epoch = epoch(), .seq = Seq{seq_}, .ack = ack(), .vc = Vc{0}};
    if (what == 3) ++header.epoch;
    if (what == 4) header.seq = Seq{static_cast<std::uint16_t>(seq_ - 1 - draw(3))};
    if (what == 5) header.seq = Seq{static_cast<std::uint16_t>(seq_ + 1 + draw(80))};
    if (what == 6) header.ack = Seq{1000};
    if (what == 7) header.vc = Vc{3};
    if (what >= 8 && what < 12) {
      header.credit_vc = static_cast<std::uint8_t>(draw(2));
      header.credit = CellCount{static_cast<std::uint16_t>(kCapacity + draw(30))};
    }
    if (what == 12) packet[40] ^= std::byte{1};  // behind what the header CRC covers
    std::vector<std::byte> bytes = Told::frame(header, packet);
    if (what == 13) bytes[6 + draw(6)] ^= std::byte{1};    // source
    if (what == 14) bytes[12] ^= std::byte{1};             // EtherType
    if (what == 15) bytes[14 + draw(28)] ^= std::byte{1};  // what the header CRC covers, or itself
    if (what == 16) bytes.resize(60);                      // shorter than it says
    const bool good = what > 16 || what == 7 || (what >= 8 && what < 12);
    if (good) ++seq_;
    return bytes;
  }
  unsigned draw(unsigned n) { return static_cast<unsigned>(random_() % n); }

  std::uint8_t sessions() const { return sessions_; }

 private:
  Seq ack() {
    if (draw(10) == 0 && sessions_ == 0 && acked_ < 30) ++acked_;
    return Seq{acked_};
  }
  std::uint8_t epoch() const { return static_cast<std::uint8_t>(kOurEpoch + sessions_); }
  /// CLOSE, or an INIT of a new life; either way the link begins a new session (L7, L8), to which
  /// the next frame is an INIT.
  std::vector<std::byte> end_session() {
    const auto close = Told::frame({.kind = Kind::kClose, .epoch = epoch()},
                                   {std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}});
    const std::uint32_t ours = kOurNonce + sessions_++;
    const std::uint32_t nonce = Harness::peer_init().nonce + sessions_;
    seq_ = acked_ = 0;
    waiting_.push_back(Told::init(nonce, ours + 1));
    return draw(2) == 0 ? close : Told::init(nonce, ours);
  }
  std::mt19937 random_;
  std::uint16_t seq_ = 0;
  std::uint16_t acked_ = 0;
  std::uint8_t sessions_ = 0;  ///< that have ended
  std::deque<std::vector<std::byte>> waiting_;
};

TEST(Burst, L13_DoesWhatItsFramesDoOneByOne) {
  std::uint64_t over_credit = 0, packets = 0, sessions = 0;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Peer peer(seed);
    Told bursts, singles;
    for (int event = 0; event < 12; ++event) {
      std::vector<std::vector<std::byte>> frames(1 + peer.draw(70));
      const bool calm = peer.draw(3) == 0;
      std::generate(frames.begin(), frames.end(), [&] { return peer.next(calm); });
      bursts.receive(frames, true);
      singles.receive(frames, false);
      ASSERT_EQ(bursts.log, singles.log);
      ASSERT_EQ(bursts.frames_out(), singles.frames_out());
      ASSERT_EQ(bursts.counters(), singles.counters());
      ASSERT_EQ(bursts.link.next_deadline(), singles.link.next_deadline());
      for (Told* each : {&bursts, &singles}) {
        while (each->kept.size() > 20) each->release();
        each->now += 20us;
      }
    }
    over_credit += singles.link.counters().drops.get(Drop::kOverCredit);
    packets += singles.link.counters().packets_in.get();
    sessions += peer.sessions();
    EXPECT_EQ(singles.ups(), peer.sessions() + 1U) << "each began anew, and came up";
  }
  EXPECT_GT(sessions, 100u);
  EXPECT_GT(over_credit, 100u);
  EXPECT_GT(packets, 10'000u);
}

// All else about it is as it has to be: it is the next one, and its CRCs are right.
TEST(Burst, L3_TheNextDataIsMalformedLikeAnyOther) {
  const Header next{.epoch = kOurEpoch, .seq = Seq{0}, .ack = Seq{0}};
  Header other_vc = next;
  other_vc.vc = Vc{8};
  Header other_credit_vc = next;
  other_credit_vc.credit_vc = 8;
  auto cut = Told::frame(next, sealed(100));
  cut.resize(30 + 99);
  for (const auto& frame :
       {Told::frame(other_vc, sealed(60)), Told::frame(other_credit_vc, sealed(60)), cut,
        Told::frame(next, sealed(Told::config().mtu + 1U)), Told::frame(next, sealed(15))}) {
    Told told;
    told.receive({frame}, true);
    EXPECT_EQ(told.link.counters().drops.get(Drop::kMalformed), 1u);
    EXPECT_EQ(told.log, "");
  }
}

TEST(Burst, L10_ADataMayBeTheFirstFrameOfTheSession) {
  Told told(false);
  ASSERT_FALSE(told.link.usable());
  told.receive({Told::frame({.epoch = kOurEpoch, .seq = Seq{0}, .ack = Seq{0}}, sealed(60))}, true);
  EXPECT_TRUE(told.link.usable());
  EXPECT_EQ(told.kept.size(), 1u);
}

}  // namespace
}  // namespace mtl::link::test
