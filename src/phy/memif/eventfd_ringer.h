#pragma once

#include <cstdint>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace mtl::phy {

/// Rings eventfds that somebody else made, and never waits for whoever made them. That is said of
/// the ringing alone: an access to memory shared with a peer can be a page fault, and take as long
/// as the kernel takes to have the page.
///
/// write() could: of an eventfd all holders share one open file, so whoever made it can take
/// O_NONBLOCK off and fill the counter, and the writer would wait for ever. So the kernel is asked
/// to signal it, which cannot wait: it signals the eventfd that an asynchronous read (Linux AIO) is
/// to announce itself at, and the read is of nothing, done at once.
///
/// Threads: one at a time. To be unmade takes the kernel some milliseconds.
class EventfdRinger {
 public:
  /// Error: the kernel gives no AIO context.
  static Result<EventfdRinger> open();
  ~EventfdRinger();
  EventfdRinger(EventfdRinger&& other) noexcept
      : nothing_(std::move(other.nothing_)), context_(std::exchange(other.context_, 0)) {}
  EventfdRinger& operator=(EventfdRinger&&) = delete;

  /// False: `eventfd` is none.
  bool ring(int eventfd);

 private:
  EventfdRinger() = default;
  bool submit(int eventfd);

  Fd nothing_;  ///< a file to read nothing from
  std::uint64_t context_ = 0;
};

}  // namespace mtl::phy
