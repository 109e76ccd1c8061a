// A file appears whole or not at all, on the disk before its name leads to it.
#include "control/file/write_whole.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace {

/// What the next calls of fsync() see and answer.
std::function<int(int fd)> on_fsync;

}  // namespace

// In the place of the C library's: whether the disk has something is not to be seen otherwise.
extern "C" int fsync(int fd) {
  const int error = on_fsync ? on_fsync(fd) : 0;
  if (error == 0) return 0;
  errno = error;
  return -1;
}

namespace mtl::control {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_folder(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
}

std::string failure(const fs::path& file) {
  const auto done = write_whole(file, "new");
  return done ? "written" : done.error().message;
}

class WriteWhole : public testing::Test {
 protected:
  WriteWhole() { fs::create_directory(folder_); }
  ~WriteWhole() override {
    on_fsync = nullptr;
    fs::remove_all(folder_);
  }
  fs::path path(const std::string& name) const { return folder_ / name; }
  fs::path file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

 private:
  fs::path folder_ = fs::path(testing::TempDir()) / ("write-whole-" + std::to_string(getpid()));
};

TEST_F(WriteWhole, MakesAndReplacesFilesAndLeavesNothingBeside) {
  const fs::path made = path("made");
  EXPECT_TRUE(write_whole(made, "one"));
  EXPECT_EQ(read(made), "one");
  const std::string longer(3 << 20, 'x');
  EXPECT_TRUE(write_whole(made, longer));
  EXPECT_EQ(read(made), longer);
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteWhole, TheContentIsOnTheDiskBeforeTheNameLeadsToItAndThenTheName) {
  const fs::path made = file("made", "old");
  std::vector<std::string> calls;
  on_fsync = [&](int fd) {
    struct stat status {};
    EXPECT_EQ(::fstat(fd, &status), 0);
    calls.push_back(is_folder(fd) ? "folder, " + read(made)
                                  : std::to_string(status.st_size) + " bytes, " + read(made));
    return 0;
  };
  EXPECT_TRUE(write_whole(made, "the new one"));
  EXPECT_EQ(calls, (std::vector<std::string>{"11 bytes, old", "folder, the new one"}));
}

TEST_F(WriteWhole, WhatDoesNotComeToTheDiskReplacesNothing) {
  const fs::path made = file("made", "old");
  on_fsync = [](int) { return EIO; };
  EXPECT_EQ(failure(made),
            made.string() +
                ": cannot be written: Input/output error; name a file in a folder that is "
                "there and writable");
  EXPECT_EQ(read(made), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteWhole, ANameThatMayBeLostIsTold) {
  const fs::path made = file("made", "old");
  on_fsync = [](int fd) { return is_folder(fd) ? EIO : 0; };
  EXPECT_NE(failure(made).find("is written, but may be lost if the machine fails"),
            std::string::npos);
  EXPECT_EQ(read(made), "new");
  // A file system without anything to bring to a disk is none that loses it.
  on_fsync = [](int fd) { return is_folder(fd) ? EINVAL : 0; };
  EXPECT_EQ(failure(made), "written");
}

TEST_F(WriteWhole, LinksGoOnLeadingWhereTheyDo) {
  const fs::path old = file("old", "old");
  fs::create_symlink("old", path("link"));
  EXPECT_TRUE(write_whole(path("link"), "new"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read(old), "new");
  fs::create_symlink("nothing", path("dangling"));
  EXPECT_NE(failure(path("dangling")).find("it is a link to nothing"), std::string::npos);
  EXPECT_TRUE(fs::is_symlink(path("dangling")));
}

TEST_F(WriteWhole, ReplacesNoDeviceNoPipeAndNoFolder) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(failure(path("pipe")).find("it is no regular file"), std::string::npos);
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_NE(failure("/dev/null").find("it is no regular file"), std::string::npos);
  fs::create_directory(path("folder"));
  EXPECT_NE(failure(path("folder")).find("it is a folder"), std::string::npos);
  EXPECT_NE(failure(path("none") / "file").find("No such file or directory"), std::string::npos);
  EXPECT_NE(failure(path("pipe") / "file").find("Not a directory"), std::string::npos);
}

// Somebody else's link in a folder for all, which has the name that is written first.
TEST_F(WriteWhole, WritesIntoNothingThatIsThereAlready) {
  const fs::path other = file("other", "other");
  fs::create_symlink("other", path("made.part" + std::to_string(getpid())));
  EXPECT_TRUE(write_whole(path("made"), "new"));
  EXPECT_EQ(read(other), "other");
  EXPECT_EQ(read(path("made")), "new");
  EXPECT_EQ(files(), 2);
}

}  // namespace
}  // namespace mtl::control
