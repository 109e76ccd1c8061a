#include "tools/mtctl/table.h"

#include <gtest/gtest.h>

#include "tools/mtctl/quantity.h"

namespace mtl::tools {
namespace {

using Align = Table::Align;

TEST(Table, IsAsWideAsItsWidestCellsAndHasNoBlanksAtLineEnds) {
  Table table({{"PORT", Align::kRight}, {"NAME"}, {"NOTE"}});
  table.add({1u, "cable0", ""});
  table.add({12u, "s", "edge"});
  EXPECT_EQ(
      "PORT  NAME    NOTE\n"
      "   1  cable0\n"
      "  12  s       edge\n",
      table.text(false));
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({{"NAME"}, {"N"}});
  table.add({"Zürich", "1"});
  table.add({"Berlin", "2"});
  EXPECT_EQ("NAME    N\nZürich  1\nBerlin  2\n", table.text(false));
}

TEST(Table, ColoursDoNotMoveColumns) {
  Table table({{"LINK"}, {"N"}});
  table.add({Cell("up", Colour::kGood), "1"});
  table.add({Cell("down", Colour::kBad), "2"});
  EXPECT_EQ("LINK  N\n\x1b[32mup\x1b[0m    1\n\x1b[31mdown\x1b[0m  2\n", table.text(true));
  EXPECT_EQ("LINK  N\nup    1\ndown  2\n", table.text(false));
}

TEST(Table, LetsNoControlCharacterThrough) {
  Table table({{"NAME"}});
  table.add({"a\x1b[2Jb\nc"});
  EXPECT_EQ("NAME\na?[2Jb?c\n", table.text(false));
}

TEST(Units, OfTime) {
  EXPECT_EQ("0 ns", duration(0));
  EXPECT_EQ("999 ns", duration(999));
  EXPECT_EQ("1.00 us", duration(1'000));
  EXPECT_EQ("84.0 us", duration(84'000));
  EXPECT_EQ("1.25 ms", duration(1'250'000));
  EXPECT_EQ("3.10 s", duration(3'100'000'000));
  EXPECT_EQ("0.084 ms", milliseconds(84'000));
  EXPECT_EQ("1234.000 ms", milliseconds(1'234'000'000));
  constexpr std::uint64_t kSecond = 1'000'000'000;
  EXPECT_EQ("59 s", long_duration(59 * kSecond));
  EXPECT_EQ("12 min 5 s", long_duration(725 * kSecond));
  EXPECT_EQ("3 h 12 min", long_duration((3 * 3600 + 12 * 60 + 5) * kSecond));
  EXPECT_EQ("2 d 3 h", long_duration((2 * 86400 + 3 * 3600 + 59) * kSecond));
}

TEST(Units, OfSizesAndRates) {
  EXPECT_EQ("1023 B", bytes(1023));
  EXPECT_EQ("1.0 KiB", bytes(1024));
  EXPECT_EQ("1.5 MiB", bytes(1'572'864));
  EXPECT_EQ("2.0 GiB", bytes(std::uint64_t{1} << 31));
  EXPECT_EQ("0 bit/s", bit_rate(0));
  EXPECT_EQ("999 bit/s", bit_rate(999));
  EXPECT_EQ("812.4 Mbit/s", bit_rate(812.4e6));
  EXPECT_EQ("10.0 Gbit/s", bit_rate(10e9));
  EXPECT_EQ("0", rate(0));
  EXPECT_EQ("0.5", rate(0.5));
  EXPECT_EQ("12345", rate(12345.4));
  EXPECT_EQ("33.3 %", share(1, 3));
  EXPECT_EQ("-", share(0, 0));
  EXPECT_EQ("0.0001 %", percent_of_ppm(1));
  EXPECT_EQ("0.1 %", percent_of_ppm(1'000));
  EXPECT_EQ("1 %", percent_of_ppm(10'000));
  EXPECT_EQ("100 %", percent_of_ppm(1'000'000));
}

TEST(Quantity, TakesTimesWithTheirUnit) {
  EXPECT_EQ(250, (*parse_time("250us")).count());
  EXPECT_EQ(1'500, (*parse_time("1.5ms")).count());
  EXPECT_EQ(2'000'000, (*parse_time("2s")).count());
  EXPECT_EQ(0, (*parse_time("0s")).count());
  EXPECT_EQ(3'600'000'000, (*parse_time("3600s")).count());
}

TEST(Quantity, RefusesOtherTimes) {
  for (const char* text : {"", "5", "ms", "5 ms", "-1s", "1.5us", "1.0005ms.", "1.2.3s", ".5s",
                           "5.s", "3601s", "1e3s", "5m", "99999999999999999999s", "1.0000001s"})
    EXPECT_FALSE(parse_time(text)) << text;
  EXPECT_EQ("\"5\" has no unit: a time is a number and its unit, like 250us, 1.5ms or 2s",
            parse_time("5").error().message);
}

TEST(Quantity, TakesPercentExactly) {
  EXPECT_EQ(10'000u, *parse_percent("1"));
  EXPECT_EQ(1'000u, *parse_percent("0.1"));
  EXPECT_EQ(1u, *parse_percent("0.0001%"));
  EXPECT_EQ(0u, *parse_percent("0"));
  EXPECT_EQ(1'000'000u, *parse_percent("100%"));
  EXPECT_EQ(291'900u, *parse_percent("29.19"));  // 29.19 * 10000 is 291899.99... in binary
}

TEST(Quantity, RefusesOtherRates) {
  for (const char* text :
       {"", "%", "101", "100.0001", "-1", "0.00001", "1e1", "1%%", "1 %", "x", "nan"})
    EXPECT_FALSE(parse_percent(text)) << text;
}

}  // namespace
}  // namespace mtl::tools
