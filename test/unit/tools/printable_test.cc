// Text of whoever wrote a file does nothing to a terminal, and is UTF-8.

#include "tools/printable.h"

#include <gtest/gtest.h>

namespace mtl::tools {
namespace {

TEST(Printable, WhatIsShownStays) {
  EXPECT_EQ(printable("eth0"), "eth0");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("Ger\xC3\xA4t \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "Ger\xC3\xA4t \xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST(Printable, ControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2Jb\r\n\x7f"), "a\\x1b[2Jb\\x0d\\x0a\\x7f");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J"),
            "\\xc2\\x9b2J")
      << "CSI in one character";
  EXPECT_EQ(printable("\xE2\x80\xAE"), "\\xe2\\x80\\xae") << "right to left";
  EXPECT_EQ(printable("a\nb\tc", "\n"), "a\nb\\x09c");
}

// RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF, nothing unfinished.
TEST(Printable, WhatIsNoUtf8) {
  EXPECT_EQ(printable("\xFFz"), "\\xffz");
  EXPECT_EQ(printable("\xC0\x80"), "\\xc0\\x80");
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("a\xE2\x82"), "a\\xe2\\x82");
  EXPECT_EQ(printable("\xE2z"), "\\xe2z");
}

}  // namespace
}  // namespace mtl::tools
