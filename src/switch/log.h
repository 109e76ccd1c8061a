#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace spdlog {
class logger;
}

namespace mtl::switchd {

enum class LogStyle : std::uint8_t { kText, kJson };
enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// The level of that name (debug, info, warning, error).
Result<LogLevel> parse_log_level(std::string_view name);

/// A named value of a log line, with its type kept.
struct LogField {
  using Value = std::variant<std::int64_t, std::uint64_t, double, bool, std::string>;

  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(std::string(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) LogField(std::string_view k, T v)
      : key(k) {
    if constexpr (std::is_signed_v<T>) {
      value = static_cast<std::int64_t>(v);
    } else {
      value = static_cast<std::uint64_t>(v);
    }
  }

  std::string_view key;
  Value value;
};
using LogFields = std::initializer_list<LogField>;

/// `msg` and `fields` as one line of text: msg key=value key="two words". Control characters are
/// escaped, so that nothing from outside can make a line of its own.
std::string text_line(std::string_view msg, std::span<const LogField> fields);
/// The same as the members of a JSON object, without ts and level: "msg":"...","key":value.
std::string json_members(std::string_view msg, std::span<const LogField> fields);

/// The log of a daemon: structured lines on standard error, as text or as one JSON object each with
/// ts (RFC 3339, UTC, microseconds), level, msg and the fields. Any thread but the workers: they
/// write no log line. Nobody waits for a reader: lines that find no room are lost, and counted.
class Log {
 public:
  Log(LogStyle format, LogLevel least);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write(LogLevel level, std::string_view msg, std::span<const LogField> fields);
  void debug(std::string_view msg, LogFields f = {}) { write(LogLevel::kDebug, msg, span(f)); }
  void info(std::string_view msg, LogFields f = {}) { write(LogLevel::kInfo, msg, span(f)); }
  void warning(std::string_view msg, LogFields f = {}) { write(LogLevel::kWarning, msg, span(f)); }
  void error(std::string_view msg, LogFields f = {}) { write(LogLevel::kError, msg, span(f)); }

 private:
  static bool reader_takes_more();
  static std::span<const LogField> span(const LogFields& f) { return {f.begin(), f.size()}; }

  LogStyle format_;
  std::shared_ptr<spdlog::logger> logger_;
  std::atomic<std::uint64_t> lost_{0};
};

/// Lets through `burst` lines at once and then one each `interval`; counts what it held back. So
/// that a link that flaps does not fill the disk.
class LogLimit {
 public:
  LogLimit(std::uint32_t burst, Duration interval)
      : interval_(interval), burst_(burst), left_(burst) {}

  /// Whether a line may be written at `now`; if not, it counts as held back.
  bool allow(Time now);
  /// Whether allow() would say so; counts nothing.
  bool open(Time now);
  /// Lines held back since the last call that returned them.
  std::uint64_t take_suppressed() { return std::exchange(suppressed_, 0); }

 private:
  Duration interval_;
  std::uint32_t burst_;
  std::uint32_t left_;
  Time filled_{};
  std::uint64_t suppressed_ = 0;
};

}  // namespace mtl::switchd
