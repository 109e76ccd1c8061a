#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

/// Checks of options that CLI11's own let through: it takes -5 as 2^64 - 5, and nan as in any
/// range.
namespace mtl::mtperf {

/// A whole number of at least `least`.
inline CLI::Validator whole_number(std::uint64_t least) {
  const auto check = [least](const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    if (whole && value >= least) return {};
    return fmt::format("{}: a whole number from {} up, please", text, least);
  };
  return {check, "UINT", ""};
}

/// Seconds in a range.
inline CLI::Validator seconds_between(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value);
    if (number && value >= least && value <= most) return {};  // not so of nan
    return fmt::format("{}: seconds from {:g} to {:g}, please", text, least, most);
  };
  return {check, "SECONDS", ""};
}

}  // namespace mtl::mtperf
