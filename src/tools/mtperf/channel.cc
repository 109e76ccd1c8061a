#include "tools/mtperf/channel.h"

#include "tools/mtperf/stream.h"

namespace mtl::mtperf {
namespace {

using transport::Received;
using transport::ReceivePosted;
using transport::Work;

constexpr transport::ReceivePool kPool = 0;

std::uint64_t context(std::uint32_t owner, std::uint32_t what) {
  return std::uint64_t{owner} << 32 | what;
}

}  // namespace

Channel::Channel(endpoint::Endpoint& endpoint, transport::ConnectionHandle connection,
                 std::uint32_t owner)
    : endpoint_(endpoint), connection_(connection), owner_(owner) {
  post();
}

void Channel::work() {
  if (!posted_ && !closing_) post();
}

void Channel::post() {
  const transport::Receive receive{.context = context(owner_, kContext),
                                   .to = memory_,
                                   .tagged = true,
                                   .tag = kControlTag,
                                   .from = connection_};
  posted_ = endpoint_.operations()->post_receive(kPool, receive, endpoint_.now()) ==
            ReceivePosted::kTaken;
}

bool Channel::tell(const Control& control) {
  const ControlBytes bytes = encode(control);
  const Work send{.kind = Work::Kind::kSend,
                  .flags = transport::kTagged | transport::kInject | transport::kSilent,
                  .context = context(owner_, kContext),
                  .from = bytes,
                  .tag = kControlTag};
  return endpoint_.operations()->post(connection_, send, endpoint_.now()) ==
         transport::Posted::kTaken;
}

std::optional<Control> Channel::received(const Received& received) {
  posted_ = false;
  if (!received.ok()) return std::nullopt;
  const auto control = decode_control(std::span(memory_).first(received.length));
  post();
  return control;
}

void Channel::close() {
  closing_ = true;
  if (posted_) endpoint_.operations()->cancel_receive(kPool, context(owner_, kContext));
}

MessageSink::MessageSink(endpoint::Endpoint& endpoint, transport::ConnectionHandle connection,
                         const Job& job, std::uint32_t owner, std::uint64_t seed)
    : endpoint_(endpoint),
      connection_(connection),
      job_(job),
      owner_(owner),
      seed_(seed),
      memory_(job.receives() * job.size),
      number_of_(job.receives()),
      is_posted_(job.receives()) {
  for (std::uint32_t slot = job.receives(); slot > 0; --slot) due_.push_back(slot - 1);
  work();
}

void MessageSink::work() {
  while (!closing_ && !due_.empty() && post(due_.back())) due_.pop_back();
}

bool MessageSink::post(std::uint32_t slot) {
  const transport::Receive receive{
      .context = context(owner_, slot), .to = place(slot), .from = connection_};
  if (endpoint_.operations()->post_receive(kPool, receive, endpoint_.now()) !=
      ReceivePosted::kTaken) {
    return false;
  }
  number_of_[slot] = next_number_++;
  is_posted_[slot] = true;
  ++posted_;
  return true;
}

/// Messages meet receives in the order in which they were sent (T31), but a long one may be
/// complete before one that was sent earlier.
bool MessageSink::received(const Received& received) {
  const auto slot = static_cast<std::uint32_t>(received.context);
  if (slot >= is_posted_.size() || !is_posted_[slot]) return false;
  is_posted_[slot] = false;
  --posted_;
  if (!received.ok()) return false;
  const bool whole = received.total == job_.size;
  if (!whole || (job_.verify && !content_ok(seed_, number_of_[slot], place(slot)))) ++altered_;
  ++count_;
  due_.push_back(slot);
  work();
  return true;
}

void MessageSink::close() {
  closing_ = true;
  for (std::uint32_t slot = 0; slot < is_posted_.size(); ++slot) {
    if (!is_posted_[slot]) continue;
    endpoint_.operations()->cancel_receive(kPool, context(owner_, slot));
  }
}

}  // namespace mtl::mtperf
