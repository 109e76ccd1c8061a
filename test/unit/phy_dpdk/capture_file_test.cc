#include "phy/dpdk/capture_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mtl::phy {
namespace {

namespace fs = std::filesystem;

class CaptureFile : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory_); }
  void TearDown() override { fs::remove_all(directory_); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
    return (directory_ / name).string();
  }
  /// The head of a capture file of little endian, format 2.4, with this link type.
  static std::string head(char link) {
    return std::string("\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0", 20) + link +
           std::string(3, '\0');
  }
  static std::string said(const Result<void>& result) {
    return result ? "" : result.error().message;
  }
  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  fs::path directory_ = fs::temp_directory_path() / ("mtl-capture-" + std::to_string(::getpid()));
};

TEST_F(CaptureFile, EthernetCanBeRead) {
  EXPECT_EQ(said(readable_capture(write("good", head(1)))), "");
}

TEST_F(CaptureFile, WhatCannotBeReadIsNamed) {
  expect_in("/nowhere/x cannot be read", said(readable_capture("/nowhere/x")));
  expect_in("cannot be read", said(readable_capture(write("empty", ""))));
  expect_in("cannot be read", said(readable_capture(write("text", "this is no capture file"))));
  expect_in("cannot be read", said(readable_capture(directory_.string())));
  expect_in("no Ethernet frames but those of link type 113",
            said(readable_capture(write("cooked", head(113)))));
}

// Neither waits for a writer.
TEST_F(CaptureFile, APipeOrDirectoryIsNotRead) {
  const std::string pipe = (directory_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_in("capture file " + pipe + " cannot be read: it is no file",
            said(readable_capture(pipe)));
  expect_in("cannot be read: it is no file", said(readable_capture(directory_.string())));
}

TEST_F(CaptureFile, NothingIsOverwrittenByAccident) {
  const std::string there = write("there", "x");
  expect_in("there is there already", said(writable_capture(there, false)));
  EXPECT_EQ(said(writable_capture(there, true)), "");
  EXPECT_EQ(said(writable_capture((directory_ / "new").string(), false)), "");
  EXPECT_FALSE(fs::exists(directory_ / "new")) << "asking makes nothing";
  expect_in("cannot be made in /nowhere", said(writable_capture("/nowhere/x", false)));
  expect_in("cannot be overwritten", said(writable_capture(directory_.string(), true)));
}

TEST_F(CaptureFile, IsMadeAnewForItsOwnerAndNowhereElse) {
  const fs::path made = directory_ / "made";
  EXPECT_TRUE(make_capture(made.string()));
  EXPECT_EQ(fs::status(made).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  expect_in("made is there already", make_capture(made.string()).error().message);
  const fs::path elsewhere = directory_ / "elsewhere";
  const fs::path link = directory_ / "link";
  fs::create_symlink(elsewhere, link);
  expect_in("link is there already", make_capture(link.string()).error().message);
  EXPECT_FALSE(fs::exists(elsewhere));
  expect_in("cannot be made in /nowhere", make_capture("/nowhere/x").error().message);
}

TEST_F(CaptureFile, WhatWasMadeIsRemovedAndNothingElse) {
  const std::string path = (directory_ / "made").string();
  const auto made = make_capture(path);
  ASSERT_TRUE(made);
  std::ofstream(path, std::ios::app) << "what the port wrote";
  fs::rename(path, path + ".kept");
  write("made", "another's");
  remove_capture(*made);
  EXPECT_TRUE(fs::exists(path));
  fs::rename(path + ".kept", path);
  remove_capture(*made);
  EXPECT_FALSE(fs::exists(path));
  remove_capture(*made);
}

}  // namespace
}  // namespace mtl::phy
