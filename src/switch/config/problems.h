#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "control/file/message_file.h"

namespace mtl::switchd {

/// Everything that is wrong with a configuration: an operator wants all of it at once.
class Problems {
 public:
  explicit Problems(const control::Locations& locations) : locations_(locations) {}

  /// "file:line:column: path what". What is said already is not said again: a bad default shows at
  /// every port that takes it.
  void add(const std::string& path, const std::string& what);
  void warn(const std::string& path, const std::string& what);
  /// Adds "path is value; it must be low..high" if it is not.
  bool range(const std::string& path, std::uint64_t value, std::uint64_t low, std::uint64_t high);

  bool none() const { return problems_.empty(); }
  /// All problems, one a line; only if there are any.
  Error error() const;
  const std::vector<std::string>& warnings() const { return warnings_; }
  const control::Locations& locations() const { return locations_; }

 private:
  std::string sentence(const std::string& path, const std::string& what) const;

  const control::Locations& locations_;
  std::vector<std::string> problems_;
  std::unordered_set<std::string> said_;  ///< the same
  std::vector<std::string> warnings_;
};

/// "list[index]".
std::string item(std::string_view list, int index);

}  // namespace mtl::switchd
