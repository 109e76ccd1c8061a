#include "tools/mtperf/datagram_run.h"

#include <algorithm>
#include <cmath>

#include "base/byte_order.h"
#include "network/packet.h"
#include "tools/mtperf/verdict.h"

namespace mtl::mtperf {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRepeat = 100ms;  ///< of HELLO and END until they are answered
constexpr Duration kLinger = 300ms;  ///< answers a peer's END again after the own end

}  // namespace

/// Numbers that a named drop accounts for: refused, and not arrived by another way (L9).
std::uint64_t DatagramRun::Peer::explained() const {
  return static_cast<std::uint64_t>(
      std::count_if(refused_numbers.begin(), refused_numbers.end(),
                    [&](std::uint64_t number) { return !arrivals.has(number); }));
}

bool DatagramRun::Peer::complete() const {
  return total && refused_numbers.size() >= refused_there && lost() == 0;
}

std::uint64_t DatagramRun::Peer::lost() const {
  if (!total) return 0;
  const std::uint64_t known = arrivals.received() + explained();
  return *total > known ? *total - known : 0;
}

DatagramRun::DatagramRun(endpoint::Endpoint& endpoint, const DatagramOptions& options)
    : endpoint_(endpoint), options_(options) {
  run_ = static_cast<std::uint64_t>(nanos(endpoint.clock().now()));
  stream_ = stream_of(endpoint.node());
  peers_.resize(options.peers.size());
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].node = options.peers[i];
    index_[options.peers[i].value()] = i;
  }
  endpoint_.on_datagram([this](const endpoint::Datagram& d) { on_datagram(d); });
  endpoint_.on_refusal([this](const endpoint::Refusal& r) { on_refusal(r); });
}

std::uint64_t DatagramRun::stream_of(NodeId sender) const {
  return options_.seed << 16 ^ sender.value();
}

mtlink::perf::DatagramReport DatagramRun::run(const volatile std::sig_atomic_t& stop) {
  if (!greet(stop)) return report(Duration::zero());
  const Time start = endpoint_.clock().now();
  send_all(stop);
  const Duration sending = endpoint_.clock().now() - start;
  finish(stop);
  return report(sending);
}

void DatagramRun::step(Duration longest) {
  if (!endpoint_.progress()) endpoint_.wait(longest);
}

bool DatagramRun::tell(Peer& peer, Kind kind, std::uint64_t number, std::uint64_t extra) {
  return endpoint_.send({peer.node, options_.partition, 0}, kHeaderBytes,
                        [&](std::span<std::byte> out) {
                          encode({kind, number, run_, extra}, out);
                        }) == endpoint::Send::kTaken;
}

/// Waits for the link and for every peer, and learns their runs.
bool DatagramRun::greet(const volatile std::sig_atomic_t& stop) {
  const Time until = endpoint_.clock().now() + options_.patience;
  Time again{};
  for (;;) {
    const Time now = endpoint_.clock().now();
    const bool all =
        std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.greeted && p.run; });
    if (all) return true;
    if (stop != 0) {
      faults_.emplace_back("stopped before every peer had answered");
      return false;
    }
    if (now >= until) break;
    if (now >= again && endpoint_.usable()) {
      again = now + kRepeat;
      for (Peer& peer : peers_) {
        if (!peer.greeted || !peer.run) tell(peer, Kind::kHello, 0);
      }
    }
    step(endpoint_.usable() ? again - now : Duration(10ms));
  }
  if (!endpoint_.usable()) {
    faults_.push_back(endpoint_.slot_fault().empty()
                          ? "the link did not come UP; see `mtctl show links`"
                          : "the slot was lost: " + endpoint_.slot_fault());
    return false;
  }
  for (const Peer& peer : peers_) {
    if (peer.greeted && peer.run) continue;
    faults_.push_back("node " + std::to_string(peer.node.value()) +
                      " does not answer; does mtperf run there, and is there a route?");
  }
  return false;
}

bool DatagramRun::sending_over(Time start, Time now) const {
  if (options_.count == 0) return now - start >= options_.duration;
  return std::all_of(peers_.begin(), peers_.end(),
                     [&](const Peer& p) { return p.sent >= options_.count; });
}

bool DatagramRun::send_data(Peer& peer) {
  const std::uint64_t number = peer.sent;
  const std::size_t size = size_of(stream_, number, options_.size_least, options_.size_most);
  // A flow keeps its entropy; consecutive numbers take the flows in turn.
  const auto entropy = static_cast<std::uint16_t>(number % options_.flows);
  const auto sent =
      endpoint_.send({peer.node, options_.partition, entropy}, size, [&](std::span<std::byte> out) {
        encode({Kind::kData, number, run_, 0}, out);
        fill_content(stream_, number, out.subspan(kHeaderBytes));
      });
  if (sent != endpoint::Send::kTaken) return false;
  ++peer.sent;
  peer.sent_bytes += size;
  return true;
}

void DatagramRun::send_all(const volatile std::sig_atomic_t& stop) {
  const Time start = endpoint_.clock().now();
  std::uint64_t all = 0;
  std::size_t turn = 0;
  constexpr unsigned kBurst = 32;
  for (;;) {
    const Time now = endpoint_.clock().now();
    if (stop != 0 || sending_over(start, now)) return;
    auto due = std::uint64_t{all + kBurst};
    if (options_.rate > 0) {
      const double seconds = std::chrono::duration<double>(now - start).count();
      due = static_cast<std::uint64_t>(seconds * options_.rate) + 1;
    }
    unsigned sent = 0;
    for (std::size_t tried = 0; all < due && sent < kBurst && tried < peers_.size();) {
      Peer& peer = peers_[turn];
      turn = (turn + 1) % peers_.size();
      if ((options_.count != 0 && peer.sent >= options_.count) || !send_data(peer)) {
        ++tried;
        continue;
      }
      tried = 0;
      ++sent;
      ++all;
    }
    if (endpoint_.progress() || sent == kBurst) continue;
    if (options_.rate > 0 && all >= due) {
      endpoint_.wait(std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / options_.rate)));
    } else if (sent == 0) {
      endpoint_.wait(1ms);  // the queue is full: the link's progress wakes us
    }
  }
}

/// Tells every peer how much was sent until it has answered, and waits for what is still to come.
void DatagramRun::finish(const volatile std::sig_atomic_t& stop) {
  last_news_ = endpoint_.clock().now();
  Time again{};
  Time linger = kNever;
  for (;;) {
    const Time now = endpoint_.clock().now();
    // Answered, too: a peer that misses something is answered late, and asks until then.
    const bool over = std::all_of(peers_.begin(), peers_.end(),
                                  [](const Peer& p) { return p.finished && p.answered; });
    if (over && linger == kNever && endpoint_.pending() == 0) linger = now + kLinger;
    if (now >= linger) return;
    if (stop > 1 || now - last_news_ >= options_.patience) break;
    if (now >= again) {
      again = now + kRepeat;
      for (Peer& peer : peers_) {
        if (peer.finished) continue;
        tell_refused(peer);
        tell(peer, Kind::kEnd, peer.sent, peer.refused.size());
      }
    }
    step(std::min<Duration>(again - now, 10ms));
  }
  if (!endpoint_.slot_fault().empty()) {
    faults_.push_back("the slot was lost: " + endpoint_.slot_fault());
  }
  for (const Peer& peer : peers_) {
    if (peer.finished && peer.answered) continue;
    faults_.push_back("node " + std::to_string(peer.node.value()) + " fell silent before the end");
  }
}

/// The numbers that echo errors came about, as many to a datagram as fit.
void DatagramRun::tell_refused(Peer& peer) {
  const std::size_t most =
      (std::min<std::size_t>(endpoint_.max_payload(), 1024) - kHeaderBytes) / 8;
  for (auto next = peer.refused.begin(); next != peer.refused.end();) {
    std::vector<std::uint64_t> some;
    while (next != peer.refused.end() && some.size() < most) some.push_back(*next++);
    endpoint_.send({peer.node, options_.partition, 0}, kHeaderBytes + 8 * some.size(),
                   [&](std::span<std::byte> out) {
                     encode({Kind::kRefused, some.size(), run_, 0}, out);
                     for (std::size_t i = 0; i < some.size(); ++i) {
                       store64(out.data() + kHeaderBytes + 8 * i, some[i]);
                     }
                   });
  }
}

void DatagramRun::on_refused(Peer& peer, std::span<const std::byte> payload) {
  for (std::size_t at = 0; at + 8 <= payload.size(); at += 8) {
    if (peer.refused_numbers.size() >= Arrivals::kWindow) return;
    peer.refused_numbers.insert(load64(payload.data() + at));
  }
}

void DatagramRun::on_datagram(const endpoint::Datagram& datagram) {
  const auto header = decode(datagram.payload);
  const auto known = index_.find(datagram.src.value());
  if (!header || known == index_.end()) return;
  Peer& peer = peers_[known->second];
  switch (header->kind) {
    case Kind::kHello:
      peer.run = header->run;
      tell(peer, Kind::kHelloAck, 0);
      break;
    case Kind::kHelloAck:
      peer.greeted = true;
      break;
    case Kind::kData:
      if (peer.run == header->run) on_data(peer, *header, datagram);
      break;
    case Kind::kEnd:
      if (peer.run != header->run) break;
      // That it has ended, or knows of more refusals, is news: what is missing may be explained
      // yet.
      if (!peer.total || peer.refused_there != header->extra) last_news_ = endpoint_.clock().now();
      peer.total = header->number;
      peer.refused_there = header->extra;
      // Answered when all has come, or nothing has for long: the peer asks again until then.
      if (peer.complete() || endpoint_.clock().now() - std::max(peer.last_arrival, last_news_) >=
                                 options_.patience / 4) {
        peer.answered = tell(peer, Kind::kEndAck, peer.arrivals.received()) || peer.answered;
      }
      break;
    case Kind::kRefused:
      if (peer.run == header->run) on_refused(peer, datagram.payload.subspan(kHeaderBytes));
      break;
    case Kind::kEndAck:
      peer.finished = true;
      peer.delivered = header->number;
      last_news_ = endpoint_.clock().now();
      break;
  }
}

void DatagramRun::on_data(Peer& peer, const Header& header, const endpoint::Datagram& datagram) {
  const std::span<const std::byte> payload = datagram.payload;
  const std::uint64_t stream = stream_of(peer.node);
  const std::size_t size = size_of(stream, header.number, options_.size_least, options_.size_most);
  if (payload.size() != size || !content_ok(stream, header.number, payload.subspan(kHeaderBytes))) {
    ++peer.altered;
    return;
  }
  if (peer.arrivals.add(header.number) == Arrivals::What::kCopy) return;
  peer.order.add(datagram.entropy, header.number);
  if (datagram.congested) ++peer.marked;
  const Time now = endpoint_.clock().now();
  if (peer.received_bytes != 0) {
    peer.longest_gap = std::max(peer.longest_gap, now - peer.last_arrival);
  }
  peer.last_arrival = last_news_ = now;
  peer.received_bytes += payload.size();
}

void DatagramRun::on_refusal(const endpoint::Refusal& refusal) {
  if (refusal.packet.size() < network::kHeader + kNumberedBytes) return;
  const auto dropped = decode_head(refusal.packet.subspan(network::kHeader));
  const network::Header h = network::decode(refusal.packet);
  const auto known = index_.find(h.dst.value());
  if (!dropped || dropped->kind != Kind::kData || known == index_.end()) return;
  Peer& peer = peers_[known->second];
  peer.refused.insert(dropped->number);
  peer.refused_by = refusal.from;
  peer.refused_reason = refusal.hop_limit_exceeded ? Drop::kHopLimitExceeded : Drop::kNoRoute;
}

mtlink::perf::DatagramReport DatagramRun::report(Duration sending) const {
  mtlink::perf::DatagramReport r;
  r.set_node(endpoint_.node().value());
  r.set_seed(options_.seed);
  r.set_seconds(std::chrono::duration<double>(sending).count());
  r.set_link_ups(endpoint_.link().counters().ups.get());
  r.set_link_packets_back(endpoint_.link().counters().packets_back.get());
  r.set_dropped_here(endpoint_.counters().drops.get(Drop::kNoRoute));
  r.set_link_replays(endpoint_.link().counters().replays.get());
  auto& t = *r.mutable_total();
  bool all_finished = true;
  for (const Peer& peer : peers_) {
    auto& p = *r.add_peers();
    p.set_node(peer.node.value());
    p.set_sent(peer.sent);
    p.set_sent_bytes(peer.sent_bytes);
    p.set_refused(peer.refused.size());
    if (!peer.refused.empty()) {
      p.set_refused_by(peer.refused_by.value());
      p.set_refused_reason(std::string(name(peer.refused_reason)));
    }
    p.set_finished(peer.finished);
    p.set_delivered(peer.delivered);
    p.set_received(peer.arrivals.received());
    p.set_received_bytes(peer.received_bytes);
    p.set_copies(peer.arrivals.copies());
    p.set_lost(peer.lost());
    p.set_missed(peer.explained());
    p.set_altered(peer.altered);
    p.set_out_of_order(peer.arrivals.out_of_order());
    p.set_out_of_order_in_flow(peer.order.out_of_order());
    p.set_marked(peer.marked);
    p.set_longest_gap_us(static_cast<std::uint64_t>(peer.longest_gap / 1us));
    all_finished = all_finished && peer.finished && peer.total;
    t.set_sent(t.sent() + p.sent());
    t.set_sent_bytes(t.sent_bytes() + p.sent_bytes());
    t.set_refused(t.refused() + p.refused());
    t.set_delivered(t.delivered() + p.delivered());
    t.set_received(t.received() + p.received());
    t.set_received_bytes(t.received_bytes() + p.received_bytes());
    t.set_copies(t.copies() + p.copies());
    t.set_lost(t.lost() + p.lost());
    t.set_missed(t.missed() + p.missed());
    t.set_altered(t.altered() + p.altered());
    t.set_out_of_order(t.out_of_order() + p.out_of_order());
    t.set_out_of_order_in_flow(t.out_of_order_in_flow() + p.out_of_order_in_flow());
    t.set_marked(t.marked() + p.marked());
    t.set_longest_gap_us(std::max(t.longest_gap_us(), p.longest_gap_us()));
  }
  t.set_finished(all_finished);
  for (const std::string& fault : faults_) r.add_faults(fault);
  for (const std::string& complaint : complaints(r)) r.add_faults(complaint);
  r.set_ok(r.faults().empty() && all_finished);
  return r;
}

}  // namespace mtl::mtperf
