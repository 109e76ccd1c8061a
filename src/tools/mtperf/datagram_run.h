#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "endpoint/endpoint.h"
#include "mtlink/perf.pb.h"
#include "tools/mtperf/stream.h"

namespace mtl::mtperf {

/// What `mtperf datagram` does.
struct DatagramOptions {
  std::vector<NodeId> peers;      ///< whom to send to, and from whom to expect as much
  std::size_t size_least = 1024;  ///< bytes of payload, at least kHeaderBytes
  std::size_t size_most = 1024;
  double rate = 0;          ///< datagrams a second, to all peers together; 0: as fast as it goes
  std::uint64_t count = 0;  ///< datagrams to each peer; 0: until `duration`
  Duration duration = std::chrono::seconds(5);
  Duration patience = std::chrono::seconds(10);  ///< for a peer to come, to answer, to send more
  std::uint64_t seed = 1;
  Partition partition{};
  std::uint16_t flows = 16;  ///< entropy values in turn for each peer; 1: one path
};

/// One run: finds the peers, sends to all and checks what comes from them, and tells all how many
/// it sent. Caller-driven on the endpoint's thread.
class DatagramRun {
 public:
  DatagramRun(endpoint::Endpoint& endpoint, const DatagramOptions& options);
  /// Runs to the end. `stop` counts signals: the first ends greeting or sending, a second also the
  /// waiting for the peers.
  mtlink::perf::DatagramReport run(const volatile std::sig_atomic_t& stop);

 private:
  struct Peer {
    NodeId node;
    // Sending.
    bool greeted = false;
    std::uint64_t sent = 0;
    std::uint64_t sent_bytes = 0;
    std::set<std::uint64_t> refused;  ///< numbers, each once
    NodeId refused_by{};              ///< the last of them, with its reason
    Drop refused_reason{};
    bool finished = false;        ///< its END-ACK has come
    std::uint64_t delivered = 0;  ///< as that says
    // Receiving.
    std::optional<std::uint64_t> run;  ///< the peer's, by its HELLO
    Arrivals arrivals;
    FlowOrder order;
    std::uint64_t marked = 0;  ///< of those received, with CE (N12)
    std::uint64_t received_bytes = 0;
    std::uint64_t altered = 0;
    Time last_arrival{};
    Duration longest_gap{0};
    std::optional<std::uint64_t> total;       ///< that it sent, by its END
    std::uint64_t refused_there = 0;          ///< of them, as many numbers follow in kRefused
    std::set<std::uint64_t> refused_numbers;  ///< that have come
    bool answered = false;                    ///< its END, by our END-ACK
    bool complete() const;
    std::uint64_t explained() const;
    std::uint64_t lost() const;
  };

  void on_datagram(const endpoint::Datagram& datagram);
  void on_data(Peer& peer, const Header& header, const endpoint::Datagram& datagram);
  void on_refusal(const endpoint::Refusal& refusal);
  bool tell(Peer& peer, Kind kind, std::uint64_t number, std::uint64_t extra = 0);
  bool greet(const volatile std::sig_atomic_t& stop);
  void send_all(const volatile std::sig_atomic_t& stop);
  bool send_data(Peer& peer);
  bool sending_over(Time start, Time now) const;
  void finish(const volatile std::sig_atomic_t& stop);
  void tell_refused(Peer& peer);
  void on_refused(Peer& peer, std::span<const std::byte> payload);
  std::uint64_t stream_of(NodeId sender) const;
  void step(Duration longest);
  mtlink::perf::DatagramReport report(Duration sending) const;

  endpoint::Endpoint& endpoint_;
  DatagramOptions options_;
  std::uint64_t run_;  ///< tells this run's datagrams from an earlier one's
  std::uint64_t
      stream_;  ///< of our content and sizes: by seed and node, so that a run can be repeated
  std::vector<Peer> peers_;
  std::unordered_map<std::uint16_t, std::size_t> index_;
  Time last_news_{};  ///< when something came that brings the end nearer
  std::vector<std::string> faults_;
};

}  // namespace mtl::mtperf
