#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mtl::sim {

/// A check that failed: which one, and what was found where.
struct Violation {
  std::string_view check;  ///< static storage
  std::string text;
};

/// The violations of one run, the first few of them: the first is what counts, later ones may
/// follow from it.
class Violations {
 public:
  static constexpr std::size_t kKept = 20;
  void add(std::string_view check, std::string text) {
    if (list_.size() < kKept) list_.push_back({check, std::move(text)});
  }
  bool any() const { return !list_.empty(); }
  const std::vector<Violation>& list() const { return list_; }

 private:
  std::vector<Violation> list_;
};

}  // namespace mtl::sim
