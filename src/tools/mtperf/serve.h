#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "endpoint/endpoint.h"
#include "tools/mtperf/channel.h"
#include "tools/mtperf/initiator.h"
#include "tools/mtperf/job.h"
#include "transport/operations.h"

namespace mtl::mtperf {

/// Where `mtperf serve` listens, in the node of its endpoint (T1).
inline constexpr transport::EndpointId kServerEndpoint{0x7065};  // "pe"

/// The transport of either end of mtperf.
/// `mtu`: the longest packet, if the link carries it.
transport::Settings transport_settings(std::uint16_t mtu = 65535);
transport::Limits transport_limits();

/// How often the user has asked to stop: once, and what is under way is brought to its end; more,
/// and it is not.
using Stops = std::function<int()>;

struct ServeOptions {
  std::uint64_t memory = std::uint64_t{256} << 20;  ///< bytes for one client at most, in all
  std::uint64_t clients = 0;  ///< ends when so many have come and gone; 0: never
  bool poll = false;          ///< never sleeps
};

/// Sleeps when nothing has happened for a while, unless it is to poll.
class Idler {
 public:
  Idler(endpoint::Endpoint& endpoint, bool poll) : endpoint_(endpoint), poll_(poll) {}
  /// Lets CLOSEs leave and be answered, and takes what then ends: for kLinger at most.
  void linger(const std::function<void()>& take);
  /// One progress() and, after a while without any, a sleep of at most `longest`.
  void turn(Duration longest);

 private:
  static constexpr Duration kSpin = std::chrono::microseconds(50);
  static constexpr Duration kLinger = std::chrono::milliseconds(200);
  endpoint::Endpoint& endpoint_;
  const bool poll_;
  Time busy_at_{};
};

/// Does what clients of mtperf ask for: gives them memory, takes their messages, answers.
class Server {
 public:
  /// `endpoint` has started its transport. Errors: it has a server already.
  static Result<std::unique_ptr<Server>> open(endpoint::Endpoint& endpoint,
                                              const ServeOptions& options);

  /// Closes the connections of its clients.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Until `stops` says so, or as many clients as wanted are gone.
  void run(const Stops& stops);
  /// Connections that it accepted.
  std::uint64_t accepted() const { return next_id_ - 1; }

 private:
  /// A client's connection.
  struct Session {
    Session(endpoint::Endpoint& endpoint, transport::ConnectionHandle of, std::uint32_t number)
        : connection(of), id(number), channel(endpoint, of, number) {}
    const transport::ConnectionHandle connection;
    const std::uint32_t id;
    Channel channel;
    bool ended = false;
    bool working = false;
    bool stopping = false;  ///< the client is done, and is to be told what came
    Control job;
    std::vector<std::byte> window;
    transport::Key key{};
    std::unique_ptr<MessageSink> sink;
    std::unique_ptr<Initiator> initiator;  ///< of a job for both ways
    std::unique_ptr<Initiator> reader;     ///< of what it put, behind it (verify)
    std::optional<Control> reply;          ///< that could not be told yet
    bool answer_due = false;               ///< that could not be posted yet
    bool altered = false;                  ///< what was read back
    std::vector<std::byte> answer;         ///< to and fro
    std::uint64_t answers = 0;             ///< under way, which read `answer`
    std::uint8_t turn = 1;                 ///< last byte that is waited for
  };

  Server(endpoint::Endpoint& endpoint, const ServeOptions& options)
      : endpoint_(endpoint), options_(options), idler_(endpoint, options.poll) {}

  void take_events();
  void take_completions();
  void take_received();
  void control(Session& session, const Control& control);
  bool give_memory(Session& session, const Job& job);
  bool prepare(Session& session, const Control& asked);
  void begin(Session& session, const Control& control);
  void work(Session& session);
  void answer(Session& session);
  bool read_back(Session& session);
  void tell_result(Session& session);
  void look_at_slot();
  bool settle(Session& session);
  void end_job(Session& session);

  endpoint::Endpoint& endpoint_;
  const ServeOptions options_;
  Idler idler_;
  std::map<std::uint32_t, std::unique_ptr<Session>> sessions_;
  std::uint32_t next_id_ = 1;
  std::uint64_t gone_ = 0;
  std::string slot_fault_;  ///< that was told last
};

}  // namespace mtl::mtperf
