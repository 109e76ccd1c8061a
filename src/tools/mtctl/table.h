#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// How mtctl writes tables and quantities: the one home of both, so that a unit reads the same
/// everywhere.
namespace mtl::tools {

enum class Colour : std::uint8_t { kNone, kGood, kWarn, kBad };

/// `text` in `colour` if `enabled`, else as it stands.
std::string paint(std::string_view text, Colour colour, bool enabled);

struct Cell {
  Cell(std::string t, Colour c = Colour::kNone)
      : text(std::move(t)), colour(c) {}              // NOLINT: implicit
  Cell(const char* t) : text(t) {}                    // NOLINT: implicit
  Cell(std::uint64_t n) : text(std::to_string(n)) {}  // NOLINT: implicit
  std::string text;
  Colour colour = Colour::kNone;
};

/// Columns under headings, as wide as their widest cell, two blanks apart; no blanks at line ends.
class Table {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell for each column; what would disturb a terminal (control characters) becomes '?'.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  std::string text(bool colour) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Nanoseconds as "840 ns", "84.0 us", "1.25 ms", "3.10 s".
std::string duration(std::uint64_t ns);
/// Nanoseconds as milliseconds with three decimals, as ping writes them: "0.084 ms".
std::string milliseconds(std::uint64_t ns);
/// A long time as "2 d 3 h", "3 h 12 min", "12 min 5 s", "5 s".
std::string long_duration(std::uint64_t ns);
/// "512 B", "64.0 KiB", "1.5 MiB".
std::string bytes(std::uint64_t count);
/// Bits per second, decimal: "812.4 Mbit/s".
std::string bit_rate(double bits_per_second);
/// Events per second: "12.3" below 1,000, whole above.
std::string rate(double per_second);
/// Parts per million as percent without needless zeros: "0.1 %", "100 %".
std::string percent_of_ppm(std::uint32_t ppm);
/// `part` of `whole` in percent with one decimal; "-" of nothing.
std::string share(std::uint64_t part, std::uint64_t whole);

}  // namespace mtl::tools
