#include "switch/log.h"

#include <gtest/gtest.h>

#include <array>

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
