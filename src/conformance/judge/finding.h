#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace mtl::conformance::judge {

/// How far a finding can be trusted. A capture does not say which frames it missed.
enum class Grade : std::uint8_t {
  /// Holds whatever was lost, copied or reordered on the way, and whatever the capture missed.
  kCertain,
  /// Holds if the capture has every frame of the link, once, in the order and with the bytes sent.
  kUnlessMissed,
};

/// A rule that one side of a link broke.
struct Finding {
  std::size_t link = 0;   ///< index into Judge::links()
  std::size_t side = 0;   ///< 0 or 1: who broke it
  std::string_view rule;  ///< "L15"; of static duration
  Grade grade = Grade::kCertain;
  std::uint64_t frame = 0;  ///< in the capture, from 1: where it shows
  Time at{};
  std::string why;  ///< one sentence
};

class FindingSink {
 public:
  virtual void found(const Finding& finding) = 0;

 protected:
  ~FindingSink() = default;
};

/// Findings of one rule by one side.
struct RuleCount {
  std::string_view rule;
  Grade grade = Grade::kCertain;
  std::uint64_t count = 0;
};

/// Collects the findings of one link. The first few of each rule, side and grade are told, all are
/// counted, so that a device that breaks a rule in each frame costs neither time nor memory.
class Reporter {
 public:
  Reporter(std::size_t link, FindingSink& sink, bool complete)
      : link_(link), sink_(sink), complete_(complete) {}

  /// `why` is called for what is told only: it returns the sentence.
  template <class Why>
  void certain(std::size_t side, std::string_view rule, std::uint64_t frame, Time at, Why&& why) {
    ++faults_[side];
    if (count(side, rule, Grade::kCertain) > kTold) return;
    sink_.found({link_, side, rule, Grade::kCertain, frame, at, std::forward<Why>(why)()});
  }
  /// Told at once where the capture is known to be complete, else kept until finish().
  template <class Why>
  void unless_missed(std::size_t side, std::string_view rule, std::uint64_t frame, Time at,
                     Why&& why) {
    if (complete_) ++faults_[side];
    if (count(side, rule, Grade::kUnlessMissed) > kTold) return;
    Finding finding{link_, side, rule, Grade::kUnlessMissed, frame, at, std::forward<Why>(why)()};
    if (complete_) {
      sink_.found(finding);
    } else {
      kept_.push_back(std::move(finding));
    }
  }

  /// Tells what was kept, or forgets it, its count too, if the capture has shown itself to be
  /// `incomplete`.
  void finish(bool incomplete) {
    for (const Finding& finding : kept_) {
      if (!incomplete) sink_.found(finding);
    }
    kept_.clear();
    if (!incomplete || complete_) return;
    for (auto& counts : counts_) {
      std::erase_if(counts, [](const RuleCount& c) { return c.grade == Grade::kUnlessMissed; });
    }
  }

  /// How often a side has surely done wrong so far.
  std::uint64_t faults(std::size_t side) const { return faults_[side]; }
  bool complete() const { return complete_; }
  const std::vector<RuleCount>& counts(std::size_t side) const { return counts_[side]; }

 private:
  static constexpr std::uint64_t kTold = 4;  ///< of one rule, side and grade

  std::uint64_t count(std::size_t side, std::string_view rule, Grade grade) {
    for (RuleCount& entry : counts_[side]) {
      if (entry.rule == rule && entry.grade == grade) return ++entry.count;
    }
    counts_[side].push_back({rule, grade, 1});
    return 1;
  }

  std::size_t link_;
  FindingSink& sink_;
  bool complete_;
  std::array<std::vector<RuleCount>, 2> counts_;
  std::array<std::uint64_t, 2> faults_{};
  std::vector<Finding> kept_;
};

}  // namespace mtl::conformance::judge
