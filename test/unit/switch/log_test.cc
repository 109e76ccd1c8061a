#include "switch/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

namespace mtl::switchd {
namespace {

using std::chrono::seconds;

std::string text(std::string_view msg, LogFields fields) {
  return text_line(msg, {fields.begin(), fields.size()});
}
std::string json(std::string_view msg, LogFields fields) {
  return "{" + json_members(msg, {fields.begin(), fields.size()}) + "}";
}

TEST(Log, TextIsKeysAndValues) {
  EXPECT_EQ(text("link up", {{"port", std::uint16_t{3}}, {"peer", "p 1"}, {"ok", true}}),
            "link up port=3 peer=\"p 1\" ok=true");
  EXPECT_EQ(text("x", {{"a", -5}, {"b", 0.5}, {"c", ""}}), "x a=-5 b=0.5 c=\"\"");
}

TEST(Log, JsonKeepsTypes) {
  EXPECT_EQ(json("link up", {{"port", 3u}, {"peer", "p1"}, {"ok", false}, {"x", -1.5}}),
            R"({"msg":"link up","port":3,"peer":"p1","ok":false,"x":-1.5})");
}

// A name from outside makes neither a line nor a field of its own.
TEST(Log, EscapesWhatCouldBreakTheLine) {
  EXPECT_EQ(text("x", {{"name", "a\nERROR forged=1"}}), "x name=\"a\\u000aERROR forged=1\"");
  EXPECT_EQ(json("x", {{"name", "a\"b\\c\n\x80"}}), R"({"msg":"x","name":"a\"b\\c\u000a\u0080"})");
}

TEST(Log, KnowsItsLevelsByName) {
  EXPECT_TRUE(parse_log_level("warning"));
  EXPECT_EQ(*parse_log_level("debug"), LogLevel::kDebug);
  const auto wrong = parse_log_level("verbose");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("verbose"), std::string::npos);
}

/// Standard error is a pipe of the test's while this is there.
class PipedStderr {
 public:
  PipedStderr() : saved_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0);
    ::dup2(ends_[1], STDERR_FILENO);
    ::close(ends_[1]);
  }
  ~PipedStderr() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(ends_[0]);
  }
  /// What is there to be read.
  std::string read() const {
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string out;
    std::array<char, 4096> part;
    for (ssize_t n = 0; (n = ::read(ends_[0], part.data(), part.size())) > 0;)
      out.append(part.data(), static_cast<std::size_t>(n));
    return out;
  }

 private:
  int saved_;
  std::array<int, 2> ends_{};
};

TEST(Log, WaitsForNoReaderAndSaysWhatWasLost) {
  Log log(LogStyle::kText, LogLevel::kInfo);
  const PipedStderr pipe;
  constexpr int kLines = 5000;  // more than a pipe holds, of 100 bytes and more each
  for (int i = 0; i < kLines; ++i) log.info(std::string(100, 'x'));
  const std::string kept = pipe.read();
  const auto written = std::count(kept.begin(), kept.end(), '\n');
  ASSERT_GT(written, 0);
  ASSERT_LT(written, kLines);
  log.info("again");
  const std::string after = pipe.read();
  EXPECT_NE(after.find("lines of this log lost: nobody read it count=" +
                       std::to_string(kLines - written) + "\n"),
            std::string::npos)
      << after;
  EXPECT_NE(after.find("again\n"), std::string::npos);
}

TEST(LogLimit, LetsABurstThroughAndThenOneEachInterval) {
  LogLimit limit(2, seconds(10));
  Time now{seconds(100)};
  EXPECT_TRUE(limit.allow(now));
  EXPECT_TRUE(limit.allow(now));
  EXPECT_FALSE(limit.allow(now));
  EXPECT_FALSE(limit.allow(now + seconds(9)));
  EXPECT_EQ(limit.take_suppressed(), 2u);
  EXPECT_TRUE(limit.allow(now + seconds(10)));
  EXPECT_FALSE(limit.allow(now + seconds(11)));
  EXPECT_EQ(limit.take_suppressed(), 1u);
  now += seconds(1000);
  EXPECT_TRUE(limit.allow(now));
  EXPECT_TRUE(limit.allow(now));
  EXPECT_FALSE(limit.allow(now));
}

}  // namespace
}  // namespace mtl::switchd
