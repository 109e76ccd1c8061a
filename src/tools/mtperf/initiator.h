#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "endpoint/endpoint.h"
#include "tools/mtperf/histogram.h"
#include "tools/mtperf/job.h"
#include "transport/operations.h"

namespace mtl::mtperf {

/// Where an operation goes, and whose it is.
struct Target {
  transport::ConnectionHandle connection;
  transport::Key key{};     ///< of the peer's memory
  std::uint32_t owner = 0;  ///< in the upper half of each context
};

/// When it has posted enough: a number of operations, or a time from the first post on, or both;
/// neither: stop() ends it.
struct Until {
  std::optional<std::uint64_t> operations;
  std::optional<Duration> time;
};

/// Puts into memory what those who read it, as the job says, compare it with (verify).
void fill_readable(const Job& job, std::span<std::byte> window);

/// The job that reads back, at once, what `job` put into the peer's memory.
Job back_of(const Job& job);

/// Posts the operations of a job on one connection, `depth` at a time, and measures each. Not for
/// jobs to and fro.
class Initiator {
 public:
  /// `endpoint` outlives it; `seed`: of the contents.
  Initiator(endpoint::Endpoint& endpoint, const Job& job, const Target& target, const Until& until,
            std::uint64_t seed);
  Initiator(const Initiator&) = delete;
  Initiator& operator=(const Initiator&) = delete;

  /// Posts what may be posted now.
  void step();
  /// A completion of its own.
  void completed(const transport::Completion& completion);
  /// Posts no more.
  void stop() { stopped_ = true; }
  /// Whether it is done, or one failed, and nothing of its memory is in use any more.
  bool over() const { return under_way_ == 0 && (flushed_ || failed_); }

  std::uint64_t operations() const {
    return complete_ + silent_;
  }                                                   ///< complete; silent ones by flush
  std::uint64_t altered() const { return altered_; }  ///< answers with other contents (verify)
  const std::optional<transport::Completion>& failed() const { return failed_; }
  /// Of the first post and of the last completion; there are such if operations() is not 0.
  Time first() const { return first_; }
  Time last() const { return last_; }
  const Histogram& times() const { return times_; }  ///< of each, from its post; not of stores
  std::span<const std::byte> memory() const { return memory_; }
  /// Whether what the peer's memory holds, in `window`, is what was put there last (verify).
  bool matches(std::span<const std::byte> window) const;

 private:
  bool enough(Time now) const;
  transport::Work work(std::uint64_t number);
  std::span<std::byte> place(std::uint64_t slot) {
    return std::span(memory_).subspan(slot * job_.size, job_.size);
  }
  void check(std::uint64_t number);

  endpoint::Endpoint& endpoint_;
  const Job job_;
  const Target target_;
  const Until until_;
  const std::uint64_t seed_;
  std::vector<std::byte> memory_;         ///< what is put, or got: a place for each slot
  std::vector<std::uint32_t> free_;       ///< slots
  std::vector<std::uint64_t> number_of_;  ///< by slot: the operation that has it, or had it last
  std::vector<Time> posted_at_;           ///< by slot
  std::uint64_t posted_ = 0;
  std::uint64_t under_way_ = 0;  ///< those that a completion is to come of
  std::uint64_t complete_ = 0;
  std::uint64_t silent_ = 0;
  std::uint64_t altered_ = 0;
  bool stopped_ = false;
  bool flushing_ = false;
  bool flushed_ = false;
  std::optional<transport::Completion> failed_;
  Time first_{};
  Time last_{};
  Histogram times_;
};

}  // namespace mtl::mtperf
