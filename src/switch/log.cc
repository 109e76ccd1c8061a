#include "switch/log.h"

#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

namespace mtl::switchd {
namespace {

/// %v is put together here; the pattern adds time and level.
constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%fZ %-7l %v";
constexpr const char* kJsonPattern = R"({"ts":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",%v})";

spdlog::level::level_enum spd(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

/// As JSON demands (RFC 8259): quote, backslash and control characters escaped. Bytes that are not
/// ASCII are escaped too (as what ISO 8859-1 has there), so that the line is valid UTF-8 whatever a
/// peer or a file put into the string.
void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

bool plain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
  });
}

struct AppendValue {
  std::string& out;
  bool json;
  void operator()(const std::string& text) const {
    if (!json && plain(text)) {
      out += text;
    } else {
      append_quoted(out, text);
    }
  }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(auto number) const { fmt::format_to(std::back_inserter(out), "{}", number); }
};

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return Error{fmt::format("log level \"{}\" is none of debug, info, warning, error", name)};
}

std::string text_line(std::string_view msg, std::span<const LogField> fields) {
  std::string out(msg);
  for (const LogField& field : fields) {
    fmt::format_to(std::back_inserter(out), " {}=", field.key);
    std::visit(AppendValue{out, false}, field.value);
  }
  return out;
}

std::string json_members(std::string_view msg, std::span<const LogField> fields) {
  std::string out = "\"msg\":";
  append_quoted(out, msg);
  for (const LogField& field : fields) {
    out += ',';
    append_quoted(out, field.key);
    out += ':';
    std::visit(AppendValue{out, true}, field.value);
  }
  return out;
}

Log::Log(LogStyle format, LogLevel least)
    : format_(format),
      logger_(std::make_shared<spdlog::logger>("mtswitchd",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_pattern(format == LogStyle::kJson ? kJsonPattern : kTextPattern,
                       spdlog::pattern_time_type::utc);
  logger_->set_level(spd(least));
  logger_->flush_on(spdlog::level::debug);
}

Log::~Log() = default;

/// A pipe whose reader stands still would make the daemon stand still: room for PIPE_BUF bytes,
/// which is what makes it writable, takes a line. Its reader may be gone, too: that ends no daemon.
bool Log::reader_takes_more() {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) != 0;  // whatever is wrong with it, write() does not wait for that
}

void Log::write(LogLevel level, std::string_view msg, std::span<const LogField> fields) {
  if (!logger_->should_log(spd(level))) return;
  if (!reader_takes_more()) {
    ++lost_;
    return;
  }
  if (const std::uint64_t lost = lost_.exchange(0); lost > 0) {
    const LogField count{"count", lost};
    write(LogLevel::kWarning, "lines of this log lost: nobody read it", {&count, 1});
  }
  // The line goes in as a value, never as a format.
  logger_->log(spd(level), "{}",
               format_ == LogStyle::kJson ? json_members(msg, fields) : text_line(msg, fields));
}

bool LogLimit::open(Time now) {
  if (left_ < burst_ && now - filled_ >= interval_) {
    const auto more = static_cast<std::uint64_t>((now - filled_) / interval_);
    left_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(burst_, left_ + more));
    filled_ = now;
  }
  return left_ > 0;
}

bool LogLimit::allow(Time now) {
  if (!open(now)) {
    ++suppressed_;
    return false;
  }
  if (left_-- == burst_) filled_ = now;
  return true;
}

}  // namespace mtl::switchd
