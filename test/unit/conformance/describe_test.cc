// Reports in words: the fields of any bytes, and where two frames differ.

#include "conformance/describe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "conformance/hex.h"

namespace mtl::conformance {
namespace {

// "STATUS with POLL and ECHO" of the reference vectors.
constexpr const char* kStatus =
    "02000000ee0002000000dd0088b5"
    "11110018000600030f060000"
    "70d42ba4"
    "004000400040004000400040004000400001e2400009fbf1000000000000";

std::string value(const std::vector<DescribedField>& fields, const std::string& name) {
  const auto at =
      std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.name == name; });
  return at == fields.end() ? "(absent)" : at->value;
}

TEST(Describe, ShowsEveryFieldOfAStatus) {
  const auto fields = describe(*from_hex(kStatus));
  EXPECT_EQ(value(fields, "to MAC"), "02:00:00:00:ee:00");
  EXPECT_EQ(value(fields, "kind"), "1 STATUS");
  EXPECT_EQ(value(fields, "epoch"), "17");
  EXPECT_EQ(value(fields, "seq"), "6");
  EXPECT_EQ(value(fields, "ack"), "3");
  EXPECT_EQ(value(fields, "credit_vc"), "15");
  EXPECT_EQ(value(fields, "flags"), "6 ECHO POLL");
  EXPECT_EQ(value(fields, "header CRC"), "70d42ba4 good");
  EXPECT_EQ(value(fields, "allocation[7]"), "64");
  EXPECT_EQ(value(fields, "t_tx"), "123456");
  EXPECT_EQ(value(fields, "t_echo"), "654321");
  EXPECT_EQ(value(fields, "padding"), "6 zeros");
}

TEST(Describe, SaysThatACrcIsWrong) {
  auto frame = *from_hex(kStatus);
  frame[14 + 5] ^= std::byte{1};
  EXPECT_NE(value(describe(frame), "header CRC").find("70d42ba4 WRONG"), std::string::npos);
}

TEST(Describe, AnyBytes) {
  const auto frame = *from_hex(kStatus);
  for (std::size_t length = 0; length <= frame.size(); ++length) {
    EXPECT_FALSE(describe(std::span{frame}.first(length)).empty());
    EXPECT_FALSE(summary(std::span{frame}.first(length)).empty());
  }
  for (unsigned kind = 0; kind < 16; ++kind) {
    for (const unsigned length : {0U, 1U, 16U, 30U, 65535U}) {
      auto changed = frame;
      changed[14] = static_cast<std::byte>(0x10U | kind);
      changed[16] = static_cast<std::byte>(length >> 8);
      changed[17] = static_cast<std::byte>(length & 0xFF);
      EXPECT_FALSE(describe(changed).empty());
    }
  }
}

TEST(Describe, MarksJustWhatDiffers) {
  const auto expected = *from_hex(kStatus);
  auto got = expected;
  got[14 + 7] = std::byte{4};  // ack
  const std::string text = side_by_side(expected, got, "");
  EXPECT_NE(text.find("* ack "), std::string::npos) << text;
  EXPECT_NE(text.find("* header CRC"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '*'), 2) << text;
}

TEST(Describe, ShowsAnAbsentFrame) {
  const std::string text = side_by_side(std::nullopt, *from_hex(kStatus), "");
  EXPECT_NE(text.find("1 STATUS"), std::string::npos);
  EXPECT_NE(side_by_side(*from_hex(kStatus), std::nullopt, "").find("1 STATUS"), std::string::npos);
}

TEST(Describe, TimesToTheNanosecond) {
  EXPECT_EQ(time_text(Time{Duration{12'034'056'789}}), "12.034 056 789 s");
}

TEST(Hex, BothWays) {
  EXPECT_EQ(to_hex(*from_hex("00ffA5")), "00ffa5");
  EXPECT_TRUE(from_hex("")->empty());
  EXPECT_FALSE(from_hex("0"));
  EXPECT_FALSE(from_hex("0g"));
  EXPECT_FALSE(from_hex("g0"));
  EXPECT_EQ(to_text(*mac_from_text("02:00:00:00:DD:0f")), "02:00:00:00:dd:0f");
  for (const char* wrong : {"", "02:00:00:00:dd", "02:00:00:00:dd:0", "02:00:00:00:dd:0g",
                            "02-00-00-00-dd-00", "02:00:00:00:dd:00:", "02:00:00:00:dd:00:11"}) {
    EXPECT_FALSE(mac_from_text(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace mtl::conformance
