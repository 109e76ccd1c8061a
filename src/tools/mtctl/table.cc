#include "tools/mtctl/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

namespace mtl::tools {
namespace {

constexpr std::size_t kGap = 2;

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// Code points: what a terminal shows of names in most scripts.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

void append_padded(std::string& line, const std::string& shown, std::size_t used, std::size_t wide,
                   Table::Align align) {
  const std::string blanks(wide - used, ' ');
  line += align == Table::Align::kRight ? blanks + shown : shown + blanks;
}

struct Unit {
  double size;
  const char* name;
};

/// `value` in the largest of `units` (ascending) that it reaches, else in the first.
template <std::size_t N>
const Unit& unit_of(double value, const std::array<Unit, N>& units) {
  const Unit* best = &units[0];
  for (const auto& unit : units)
    if (value >= unit.size) best = &unit;
  return *best;
}

}  // namespace

std::string paint(std::string_view text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::kNone) return std::string(text);
  const char* code = colour == Colour::kGood ? "32" : colour == Colour::kWarn ? "33" : "31";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

void Table::add(std::vector<Cell> row) {
  assert(row.size() == columns_.size());
  for (auto& cell : row)
    std::replace_if(
        cell.text.begin(), cell.text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; },
        '?');
  rows_.push_back(std::move(row));
}

std::string Table::text(bool colour) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = width(columns_[i].heading);
    for (const auto& row : rows_) widest = std::max(widest, width(row[i].text));
    widths.push_back(widest);
  }
  std::string all;
  const auto add_line = [&](const auto& shown, const auto& plain) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) line.append(kGap, ' ');
      append_padded(line, shown(i), width(plain(i)), widths[i], columns_[i].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + '\n';
  };
  const auto heading = [&](std::size_t i) { return columns_[i].heading; };
  add_line(heading, heading);
  for (const auto& row : rows_)
    add_line([&](std::size_t i) { return paint(row[i].text, row[i].colour, colour); },
             [&](std::size_t i) { return row[i].text; });
  return all;
}

std::string duration(std::uint64_t ns) {
  constexpr std::array<Unit, 4> kUnits{{{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}}};
  const auto value = static_cast<double>(ns);
  const Unit& unit = unit_of(value, kUnits);
  if (unit.size == 1) return fmt::format("{} ns", ns);
  const double scaled = value / unit.size;
  return fmt::format("{:.{}f} {}", scaled, scaled < 10 ? 2 : 1, unit.name);
}

std::string milliseconds(std::uint64_t ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) / 1e6);
}

std::string long_duration(std::uint64_t ns) {
  const std::uint64_t s = ns / 1'000'000'000;
  if (s >= 86400) return fmt::format("{} d {} h", s / 86400, s % 86400 / 3600);
  if (s >= 3600) return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} s", s);
}

std::string bytes(std::uint64_t count) {
  constexpr std::array<Unit, 4> kUnits{
      {{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}}};
  const auto value = static_cast<double>(count);
  const Unit& unit = unit_of(value, kUnits);
  if (unit.size == 1) return fmt::format("{} B", count);
  return fmt::format("{:.1f} {}", value / unit.size, unit.name);
}

std::string bit_rate(double bits_per_second) {
  constexpr std::array<Unit, 4> kUnits{
      {{1, "bit/s"}, {1e3, "kbit/s"}, {1e6, "Mbit/s"}, {1e9, "Gbit/s"}}};
  const Unit& unit = unit_of(bits_per_second, kUnits);
  return fmt::format("{:.{}f} {}", bits_per_second / unit.size, unit.size == 1 ? 0 : 1, unit.name);
}

std::string rate(double per_second) {
  return fmt::format("{:.{}f}", per_second, per_second == 0 || per_second >= 1000 ? 0 : 1);
}

std::string percent_of_ppm(std::uint32_t ppm) {
  std::string digits = fmt::format("{}.{:04}", ppm / 10'000, ppm % 10'000);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits + " %";
}

std::string share(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace mtl::tools
