#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "endpoint/endpoint.h"
#include "tools/mtperf/job.h"
#include "transport/operations.h"

namespace mtl::mtperf {

/// Control messages of one connection, to and fro.
class Channel {
 public:
  /// Contexts of what it posts: the owner, which is not 0, and this.
  static constexpr std::uint32_t kContext = 0xFFFFFFFE;

  /// Posts a receive. `endpoint` outlives it, and it lives until the connection has ended or
  /// closed() is true. `owner`: of the contexts of what it posts.
  Channel(endpoint::Endpoint& endpoint, transport::ConnectionHandle connection,
          std::uint32_t owner);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// False: too much is under way; to be said again.
  bool tell(const Control& control);
  /// Posts its receive if that could not be yet.
  void work();
  /// A receive of its own is over. What came, nullopt if that is no control message.
  std::optional<Control> received(const transport::Received& received);
  /// Takes its receive back.
  void close();
  bool closed() const { return !posted_; }

 private:
  void post();

  endpoint::Endpoint& endpoint_;
  const transport::ConnectionHandle connection_;
  const std::uint32_t owner_;
  std::array<std::byte, kControlBytes> memory_{};
  bool posted_ = false;
  bool closing_ = false;
};

/// The receives of the messages that a job sends to this end: counts them, and compares what is in
/// them.
class MessageSink {
 public:
  /// Posts Job::receives() of them. `owner`: not 0. `seed`: of the contents. Lives until drained().
  MessageSink(endpoint::Endpoint& endpoint, transport::ConnectionHandle connection, const Job& job,
              std::uint32_t owner, std::uint64_t seed);
  MessageSink(const MessageSink&) = delete;
  MessageSink& operator=(const MessageSink&) = delete;

  /// Posts what could not be posted yet.
  void work();
  /// A receive of its own is over; true: a message came. One that it has not posted is none.
  bool received(const transport::Received& received);
  /// Takes all receives back.
  void close();
  bool drained() const { return posted_ == 0; }
  std::uint64_t count() const { return count_; }
  std::uint64_t altered() const { return altered_; }

 private:
  bool post(std::uint32_t slot);
  std::span<std::byte> place(std::uint32_t slot) {
    return std::span(memory_).subspan(slot * job_.size, job_.size);
  }

  endpoint::Endpoint& endpoint_;
  const transport::ConnectionHandle connection_;
  const Job job_;
  const std::uint32_t owner_;
  const std::uint64_t seed_;
  std::vector<std::byte> memory_;
  std::vector<std::uint64_t> number_of_;  ///< by slot: of the message that its receive meets
  std::vector<bool> is_posted_;           ///< by slot
  std::vector<std::uint32_t> due_;        ///< slots to be posted
  std::uint64_t next_number_ = 0;
  std::uint32_t posted_ = 0;
  bool closing_ = false;
  std::uint64_t count_ = 0;
  std::uint64_t altered_ = 0;
};

}  // namespace mtl::mtperf
