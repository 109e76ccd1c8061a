#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "endpoint/endpoint.h"
#include "mtlink/perf.pb.h"
#include "tools/mtperf/channel.h"
#include "tools/mtperf/initiator.h"
#include "tools/mtperf/job.h"
#include "tools/mtperf/serve.h"

namespace mtl::mtperf {

struct ClientOptions {
  NodeId peer;
  Partition partition{};
  Job job;                           ///< `size` is of each row
  std::vector<std::uint64_t> sizes;  ///< a row for each
  std::uint32_t connections = 1;
  std::uint16_t first_endpoint = 0x6300;         ///< ours (T1); one for each connection, ascending
  std::optional<std::uint64_t> operations;       ///< of each connection and row
  Duration time = std::chrono::seconds(1);       ///< of each row, unless `operations` are told
  Duration patience = std::chrono::seconds(10);  ///< with a server that does not answer
  bool poll = false;                             ///< never sleeps
  bool histogram = false;                        ///< in the report
};

/// What a fabric does with operations: runs jobs with a server of mtperf, and measures them.
class Client {
 public:
  /// `endpoint` has started its transport, and outlives it.
  Client(endpoint::Endpoint& endpoint, const ClientOptions& options);
  /// Closes its connections.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Runs a row for each size. What goes wrong is in its faults, and ends it.
  mtlink::perf::OperationReport run(const Stops& stops);

 private:
  /// One of the connections, and its part in the row.
  struct Lane {
    std::uint32_t id = 0;  ///< from 1: of the contexts of what it posts
    transport::ConnectionHandle connection;
    bool up = false;
    std::string ended;  ///< why, once it has
    Job job;            ///< of the row, with a seed of its own
    std::unique_ptr<Channel> channel;
    std::optional<Control> said;                   ///< by the server, last
    std::optional<transport::Completion> refused;  ///< of a job to and fro
    std::vector<std::byte> window;
    transport::Key key{};
    transport::Key there{};
    std::vector<std::byte> out;       ///< to and fro
    std::uint64_t out_under_way = 0;  ///< operations that read it
    std::unique_ptr<Initiator> initiator;
    std::unique_ptr<Initiator> reader;  ///< of what was put, behind it
    std::unique_ptr<MessageSink> sink;
  };

  bool connect();
  bool start_row(const Job& job);
  bool tell(Lane& lane, const Control& control);
  bool refused(const Job& job, const Control& said);
  bool start_lane(Lane& lane, const Job& job);
  bool work_row();
  bool to_and_fro(Lane& lane, const Job& job);
  bool round_trip(Lane& lane, const Job& job, std::uint64_t n);
  bool stop_row(const Job& job);
  bool verify(Lane& lane, const Job& job);
  void compare_counts(const Lane& lane, const Job& job);
  void report_row(const Job& job);
  void report_times(mtlink::perf::OperationRow& row, const Histogram& times, bool halves) const;
  void end_row();
  void drop_drained();
  std::uint64_t complete() const;

  void turn();
  void take_events();
  void take_received();
  void take_completions();
  template <class Done>
  bool until(Done done, const std::string& what);
  bool failed();
  bool fail(std::string what);
  bool refuse(const transport::Completion& completion);
  std::string end_text(const transport::ConnectionEvent& event) const;
  Lane* lane_of(std::uint64_t context);

  endpoint::Endpoint& endpoint_;
  const ClientOptions options_;
  Idler idler_;
  Stops stops_;
  int stops_allowed_ = 0;  ///< so many end the row well
  std::vector<std::unique_ptr<Lane>> lanes_;
  Histogram round_trips_;  ///< of a job to and fro
  Duration round_trips_took_{};
  std::uint64_t messages_ = 0;  ///< that came, of a job to and fro
  mtlink::perf::OperationReport report_;
};

}  // namespace mtl::mtperf
