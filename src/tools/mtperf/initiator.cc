#include "tools/mtperf/initiator.h"

#include <algorithm>
#include <cstring>

#include "tools/mtperf/stream.h"

namespace mtl::mtperf {
namespace {

using transport::Completion;
using transport::Posted;
using transport::Work;

constexpr std::uint32_t kFlush = 0xFFFFFFFF;  ///< lower half of a flush's context
/// Stores posted in one step at most, so that what is posted leaves meanwhile.
constexpr std::uint32_t kStoresAtOnce = 1024;
constexpr std::uint64_t kOne = 1;
/// What a place holds that nothing was brought to.
constexpr std::byte kNothing{0xE5};

}  // namespace

void fill_readable(const Job& job, std::span<std::byte> window) {
  if (!job.verify || (job.mode != Mode::kRead && job.mode != Mode::kLoad)) return;
  for (std::uint64_t slot = 0; slot < job.depth; ++slot) {
    fill_content(job.seed, slot, window.subspan(slot * job.size, job.size));
  }
}

Job back_of(const Job& job) {
  Job whole = job;
  whole.mode = Mode::kRead;
  whole.both = whole.verify = false;
  whole.size = job.window();
  whole.depth = 1;
  return whole;
}

Initiator::Initiator(endpoint::Endpoint& endpoint, const Job& job, const Target& target,
                     const Until& until, std::uint64_t seed)
    : endpoint_(endpoint),
      job_(job),
      target_(target),
      until_(until),
      seed_(seed),
      memory_(job.window()),
      number_of_(job.depth),
      posted_at_(job.depth) {
  for (std::uint32_t slot = job.depth; slot > 0; --slot) free_.push_back(slot - 1);
}

bool Initiator::enough(Time now) const {
  return stopped_ || (until_.operations && posted_ >= *until_.operations) ||
         (until_.time && posted_ != 0 && now - first_ >= *until_.time);
}

Work Initiator::work(std::uint64_t number) {
  const bool store = job_.mode == Mode::kStore;
  const std::uint64_t slot = store ? number % job_.depth : free_.back();
  const std::span<std::byte> at = place(slot);
  Work work{.context = std::uint64_t{target_.owner} << 32 | slot,
            .key = target_.key,
            .offset = slot * job_.size};
  switch (job_.mode) {
    case Mode::kWrite:
    case Mode::kStore:
    case Mode::kSend:
      if (job_.verify) fill_content(seed_, number, at);
      work.kind = job_.mode == Mode::kSend ? Work::Kind::kSend : Work::Kind::kPut;
      work.from = at;
      if (store) work.flags = transport::kInject | transport::kMayWait | transport::kSilent;
      break;
    case Mode::kRead:
    case Mode::kLoad:
      // What the get before it brought is the same.
      if (job_.verify) std::ranges::fill(at, kNothing);
      work.kind = Work::Kind::kGet;
      work.to = at;
      break;
    case Mode::kAtomic:
      work.kind = Work::Kind::kFetchAtomic;
      work.offset = 0;
      work.from = std::as_bytes(std::span(&kOne, 1));
      work.to = at;
      work.op = transport::AtomicOp::kAdd;
      work.type = transport::AtomicType::kU64;
      break;
  }
  return work;
}

void Initiator::step() {
  if (failed_ || flushing_) return;
  transport::Operations& operations = *endpoint_.operations();
  const bool store = job_.mode == Mode::kStore;
  Time now = endpoint_.clock().now();
  for (std::uint32_t n = 0; !enough(now); ++n) {
    if (store ? n == kStoresAtOnce : free_.empty()) return;
    const Work next = work(posted_);
    if (job_.verify) now = endpoint_.clock().now();  // filling takes its time
    if (operations.post(target_.connection, next, now) != Posted::kTaken) return;
    if (posted_ == 0) first_ = now;
    number_of_[store ? posted_ % job_.depth : free_.back()] = posted_;
    ++posted_;
    if (store) {
      ++silent_;
      continue;
    }
    ++under_way_;
    posted_at_[free_.back()] = now;
    free_.pop_back();
  }
  const Work flush{.kind = Work::Kind::kFlush,
                   .context = std::uint64_t{target_.owner} << 32 | kFlush};
  flushing_ = operations.post(target_.connection, flush, now) == Posted::kTaken;
  if (flushing_) ++under_way_;
}

void Initiator::completed(const Completion& completion) {
  const auto slot = static_cast<std::uint32_t>(completion.context);
  const bool of_a_place = slot < job_.depth;
  if (slot != kFlush && !of_a_place) return;  // a control message that failed
  // A silent one completes only if it failed.
  if (job_.mode != Mode::kStore || slot == kFlush) --under_way_;
  if (!completion.ok()) {
    if (!failed_) failed_ = completion;
    return;
  }
  last_ = endpoint_.clock().now();
  if (slot == kFlush) {
    flushed_ = true;
    return;
  }
  times_.add(last_ - posted_at_[slot]);
  ++complete_;
  if (job_.verify) check(slot);
  free_.push_back(slot);
}

/// What was got, as fill_readable() put it there; what a place was before so many fetch-adds.
void Initiator::check(std::uint64_t slot) {
  if (job_.mode == Mode::kAtomic) {
    std::uint64_t before = 0;
    std::memcpy(&before, place(slot).data(), sizeof(before));
    if (before != number_of_[slot]) ++altered_;
    return;
  }
  if (job_.mode != Mode::kRead && job_.mode != Mode::kLoad) return;
  if (!content_ok(job_.seed, slot, place(slot))) ++altered_;
}

bool Initiator::matches(std::span<const std::byte> window) const {
  if (job_.mode == Mode::kAtomic) {
    std::uint64_t sum = 0;
    std::memcpy(&sum, window.data(), sizeof(sum));
    return sum == operations();
  }
  for (std::uint64_t slot = 0; slot < job_.depth; ++slot) {
    const bool used = number_of_[slot] != 0 || slot == 0;
    if (posted_ == 0 || !used) continue;
    if (!content_ok(seed_, number_of_[slot], window.subspan(slot * job_.size, job_.size))) {
      return false;
    }
  }
  return true;
}

}  // namespace mtl::mtperf
