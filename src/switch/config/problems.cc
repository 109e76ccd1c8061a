#include "switch/config/problems.h"

#include "switch/config/node_config.h"

namespace mtl::switchd {

std::string Problems::sentence(const std::string& path, const std::string& what) const {
  return locations_.where(path) + (path.empty() ? "" : path + " ") + what;
}

void Problems::add(const std::string& path, const std::string& what) {
  std::string text = sentence(path, what);
  if (said_.insert(text).second) problems_.push_back(std::move(text));
}

void Problems::warn(const std::string& path, const std::string& what) {
  warnings_.push_back(sentence(path, what));
}

bool Problems::range(const std::string& path, std::uint64_t value, std::uint64_t low,
                     std::uint64_t high) {
  if (value >= low && value <= high) return true;
  add(path, "is " + std::to_string(value) + "; it must be " + std::to_string(low) + ".." +
                std::to_string(high));
  return false;
}

Error Problems::error() const {
  Error error;
  for (std::size_t i = 0; i < problems_.size() && i < kMaxProblems; ++i) {
    error.message += (i == 0 ? "" : "\n") + problems_[i];
  }
  if (problems_.size() > kMaxProblems) {
    error.message += "\n" + locations_.file() + ": and " +
                     std::to_string(problems_.size() - kMaxProblems) + " more";
  }
  return error;
}

std::string item(std::string_view list, int index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

}  // namespace mtl::switchd
