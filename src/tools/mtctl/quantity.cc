#include "tools/mtctl/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "control/request_check.h"

namespace mtl::tools {
namespace {

constexpr std::size_t kMaxDigits = 18;  // of a scaled number: within 64 bits

bool digits_only(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The decimal number `text` times 10^`decimals`, exactly; nullopt if it is none or has more
/// decimals.
std::optional<std::uint64_t> scaled(std::string_view text, std::size_t decimals) {
  const auto point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string fraction(point == std::string_view::npos ? "" : text.substr(point + 1));
  if ((point != std::string_view::npos && fraction.empty()) || whole.empty()) return std::nullopt;
  if (!digits_only(whole) || !digits_only(fraction) || whole.size() + decimals > kMaxDigits)
    return std::nullopt;
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (fraction.size() > decimals) return std::nullopt;
  fraction.append(decimals - fraction.size(), '0');
  std::uint64_t value = 0;
  for (const char c : std::string(whole) + fraction)
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  return value;
}

/// A number with one of the units k, M, G, T behind it, or none; nullopt if it is none or not
/// whole.
std::optional<std::uint64_t> scaled_by_unit(std::string_view number) {
  constexpr std::string_view kUnits = "kMGT";
  const auto unit = number.empty() ? std::string_view::npos : kUnits.find(number.back());
  if (unit != std::string_view::npos) number.remove_suffix(1);
  return scaled(number, unit == std::string_view::npos ? 0 : 3 * (unit + 1));
}

}  // namespace

Result<std::chrono::microseconds> parse_time(const std::string& text) {
  constexpr std::uint64_t kHourUs = 3'600'000'000;
  const auto unit_at = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string unit = text.substr(unit_at);
  const auto error = [&](const char* what) {
    return Error{fmt::format("\"{}\" {}: a time is a number and its unit, like 250us, 1.5ms or 2s",
                             text, what)};
  };
  if (unit.empty()) return error("has no unit");
  if (unit != "us" && unit != "ms" && unit != "s") return error("is no time");
  const auto us = scaled(std::string_view(text).substr(0, unit_at), unit == "us"   ? 0
                                                                    : unit == "ms" ? 3
                                                                                   : 6);
  if (!us) return error("is no whole number of microseconds");
  if (*us > kHourUs) return error("is more than an hour");
  return std::chrono::microseconds(*us);
}

Result<std::uint32_t> parse_percent(const std::string& text) {
  std::string_view number = text;
  if (!number.empty() && number.back() == '%') number.remove_suffix(1);
  const auto ppm = scaled(number, 4);
  if (!ppm || *ppm > 1'000'000)
    return Error{fmt::format(
        "\"{}\" is no rate: give percent from 0 to 100 in steps of 0.0001, like 0.1", text)};
  return static_cast<std::uint32_t>(*ppm);
}

Result<std::uint64_t> parse_bit_rate(const std::string& text) {
  using control::kMaxRateBps;
  using control::kMinRateBps;
  const auto error = [&](const std::string& what) {
    return Error{fmt::format(
        "\"{}\" {}: a rate is bits per second like 1500000, 160M or 1.6T/10000, and comes to 1k "
        "to 1T",
        text, what)};
  };
  const std::string_view all = text;
  const auto slash = std::min(all.find('/'), all.size());
  const std::string_view number = all.substr(0, slash);
  std::uint64_t divisor = 1;
  if (slash < all.size()) {
    const auto value = scaled(all.substr(slash + 1), 0);
    if (!value || *value == 0) return error("has no whole number behind the /");
    divisor = *value;
  }
  const auto bits = scaled_by_unit(number);
  if (!bits) return error("is no rate");
  if (*bits % divisor != 0) return error("leaves a rest");
  const std::uint64_t bps = *bits / divisor;
  if (bps < kMinRateBps || bps > kMaxRateBps) return error("is out of range");
  return bps;
}

Result<std::uint64_t> parse_size(const std::string& text) {
  const auto bytes = scaled_by_unit(text);
  if (!bytes || *bytes < 1'000 || *bytes > 1'000'000'000'000) {
    return Error{fmt::format(
        "\"{}\" is no size: give bytes like 1500000, 10M or 2.5G, from 1k to 1T", text)};
  }
  return *bytes;
}

}  // namespace mtl::tools
