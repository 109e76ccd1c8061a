// Captures as they are written, against the bytes that the pcapng format asks for, and as the
// reader of any capture sees them.

#include "conformance/capture_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "conformance/capture_reader.h"

namespace mtl::conformance {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// A file of its own, removed behind the test.
class CaptureWriterTest : public testing::Test {
 protected:
  CaptureWriterTest() {
    std::string name = std::filesystem::temp_directory_path() / "mtl-writer-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ / "x.pcapng";
  }
  ~CaptureWriterTest() override { std::filesystem::remove_all(folder_); }

  CaptureWriter make(const std::string& about = "") {
    auto writer = CaptureWriter::create(path_, false, "", about);
    EXPECT_TRUE(writer) << writer.error().message;
    return std::move(*writer);
  }
  Bytes file() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

std::vector<std::byte> counted(std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The blocks of the pcapng format (draft-ietf-opsawg-pcapng), worked out by hand for a machine that
// writes the low byte first.
TEST_F(CaptureWriterTest, BlocksAreThoseOfTheFormat) {
  if (std::endian::native != std::endian::little) GTEST_SKIP() << "bytes of the other order";
  CaptureWriter writer = make("ab");
  ASSERT_TRUE(writer.add_interface({"p0", "x", {std::byte{2}, {}, {}, {}, {}, std::byte{9}}, 96}));
  const auto bytes = counted(5);
  ASSERT_TRUE(writer.write({0, Time{Duration{0x0102030405060708}}, bytes, 61, true, 3, "sent"}));
  ASSERT_TRUE(
      writer.write_statistics(0, Time{Duration{0x0100000002}}, Time{Duration{0x0300000004}}, 7, 3));
  ASSERT_TRUE(writer.close());
  const Bytes section = {0x0A, 0x0D, 0x0D, 0x0A, 40, 0,    0,    0,    0x4D, 0x3C, 0x2B,
                         0x1A, 1,    0,    0,    0,  0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                         0xFF, 0xFF, 1,    0,    2,  0,    'a',  'b',  0,    0,  // the comment
                         0,    0,    0,    0,    40, 0,    0,    0};
  const Bytes interface = {1,  0, 0, 0, 60,  0, 0, 0, 1,   0,   0, 0,
                           96, 0, 0, 0, 2,   0, 2, 0, 'p', '0', 0, 0,  // name
                           3,  0, 1, 0, 'x', 0, 0, 0,                  // description
                           6,  0, 6, 0, 2,   0, 0, 0, 0,   9,   0, 0,  // MAC
                           9,  0, 1, 0, 9,   0, 0, 0,                  // nanoseconds
                           0,  0, 0, 0, 60,  0, 0, 0};
  const Bytes packet = {
      6,    0,    0,    0,    72,   0, 0, 0, 0, 0,  0,   0,   0x04, 0x03, 0x02,
      0x01, 0x08, 0x07, 0x06, 0x05, 5, 0, 0, 0, 61, 0,   0,   0,    0,    1,
      2,    3,    4,    0,    0,    0, 1, 0, 4, 0,  's', 'e', 'n',  't',  // comment
      2,    0,    4,    0,    2,    0, 0, 0,                              // outbound
      4,    0,    8,    0,    3,    0, 0, 0, 0, 0,  0,   0,               // missed before
      0,    0,    0,    0,    72,   0, 0, 0};
  const Bytes statistics = {5, 0, 0, 0, 76, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0,
                            4, 0, 0, 0, 2,  0, 8, 0, 1, 0, 0, 0, 2, 0, 0, 0,  // from
                            3, 0, 8, 0, 3,  0, 0, 0, 4, 0, 0, 0,              // to
                            4, 0, 8, 0, 7,  0, 0, 0, 0, 0, 0, 0,              // isb_ifrecv
                            5, 0, 8, 0, 3,  0, 0, 0, 0, 0, 0, 0,              // isb_ifdrop
                            0, 0, 0, 0, 76, 0, 0, 0};
  EXPECT_EQ(file(), section + interface + packet + statistics);
}

TEST_F(CaptureWriterTest, TheReaderSeesWhatWasWritten) {
  CaptureWriter writer = make("what is in it");
  ASSERT_TRUE(writer.add_interface({"left", "port 0", {}, 0}));
  std::vector<std::size_t> lengths(3000);
  std::iota(lengths.begin(), lengths.end(), 0U);
  const Time start{std::chrono::seconds(1'800'000'000)};
  for (const std::size_t i : lengths) {
    if (i == 1500) {
      ASSERT_TRUE(writer.add_interface({"right", "", {}, 0}));
    }
    const auto bytes = counted(i);
    ASSERT_TRUE(writer.write({i < 1500     ? 0U
                              : i % 2 == 0 ? 0U
                                           : 1U,
                              start + Duration{i}, bytes, i + 1, i % 3 == 0, i == 7 ? 5U : 0U,
                              "accepted"}));
  }
  ASSERT_TRUE(writer.write_statistics(0, start, start, 100, 5));
  ASSERT_TRUE(writer.write_statistics(1, start, start, 100, 44));
  EXPECT_GT(writer.size(), std::uint64_t{3000} * 1500);
  const std::uint64_t size = writer.size();
  ASSERT_TRUE(writer.close());
  EXPECT_EQ(std::filesystem::file_size(path_), size);

  auto reader = CaptureReader::open(path_);
  ASSERT_TRUE(reader) << reader.error().message;
  CaptureRecord record;
  for (const std::size_t i : lengths) {
    const auto more = reader->next(record);
    ASSERT_TRUE(more && *more) << i;
    EXPECT_EQ(record.interface, i < 1500 || i % 2 == 0 ? 0U : 1U);
    EXPECT_EQ(record.at, start + Duration{i});
    EXPECT_EQ(record.length, i + 1);
    const auto bytes = counted(i);
    ASSERT_TRUE(std::equal(record.bytes.begin(), record.bytes.end(), bytes.begin(), bytes.end()));
  }
  const auto more = reader->next(record);
  ASSERT_TRUE(more);
  EXPECT_FALSE(*more);
  EXPECT_FALSE(reader->cut_off());
  ASSERT_EQ(reader->interfaces().size(), 2U);
  EXPECT_EQ(reader->interfaces()[0].name, "left");
  EXPECT_EQ(reader->interfaces()[0].missed, 5U);
  EXPECT_EQ(reader->interfaces()[1].name, "right");
  EXPECT_EQ(reader->interfaces()[1].missed, 44U);
}

TEST_F(CaptureWriterTest, AFileThatIsThereIsReplacedOnlyIfAsked) {
  std::ofstream(path_) << "precious";
  const auto refused = CaptureWriter::create(path_, false, "", "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            path_.string() +
                ": is there already; write to another file (-w), or replace it (--overwrite)");
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
  auto writer = CaptureWriter::create(path_, true, "", "");
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(file().front(), 0x0A);
}

TEST_F(CaptureWriterTest, WhereNothingCanBeWrittenIsTold) {
  const auto nowhere = CaptureWriter::create(folder_ / "none" / "x", false, "", "");
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find("cannot be written: No such file or directory; write to "
                                         "another file (-w)"),
            std::string::npos)
      << nowhere.error().message;
  const auto folder = CaptureWriter::create(folder_, true, "", "");
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("Is a directory"), std::string::npos);
}

TEST_F(CaptureWriterTest, AFileIsItsOwnersAlone) {
  ASSERT_TRUE(make().close());
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  // A former one that others may read, or have open, is not written into.
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  std::ifstream former(path_, std::ios::binary);
  auto writer = CaptureWriter::create(path_, true, "", "another");
  ASSERT_TRUE(writer && writer->close());
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  const std::string kept{std::istreambuf_iterator<char>(former), {}};
  EXPECT_EQ(kept.find("another"), std::string::npos);
}

TEST_F(CaptureWriterTest, ASymbolicLinkIsNotFollowed) {
  const auto target = folder_ / "target";
  std::filesystem::create_symlink(target, path_);
  for (const bool there : {false, true}) {
    if (there) std::ofstream(target) << "precious";
    for (const bool replace : {false, true}) {
      const auto refused = CaptureWriter::create(path_, replace, "", "");
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().message,
                path_.string() + ": is a symbolic link; name the file itself (-w)");
    }
    EXPECT_EQ(std::filesystem::exists(target), there);
  }
  EXPECT_EQ(std::filesystem::file_size(target), 8U);
  // What is no file is what is meant: /dev/stdout and a shell's >(...) are links.
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("/dev/null", path_);
  EXPECT_TRUE(CaptureWriter::create(path_, false, "", ""));
}

TEST_F(CaptureWriterTest, APipeWithoutReaderIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const auto refused = CaptureWriter::create(path_, false, "", "");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("start its reader first"), std::string::npos);
  const Fd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_TRUE(CaptureWriter::create(path_, false, "", ""));
}

// Whoever waits for the room of a pipe has other things to wait for, too.
TEST_F(CaptureWriterTest, AnOutputThatTakesNothingIsWaitedForByTheCaller) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const Fd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_LE(0, ::fcntl(reader.get(), F_SETPIPE_SZ, 4096));
  std::vector<std::byte> got;
  int waits = 0;
  const auto take = [&](int) {
    std::array<std::byte, 1000> some;
    const ssize_t n = ::read(reader.get(), some.data(), some.size());
    if (n > 0) got.insert(got.end(), some.begin(), some.begin() + n);
    return ++waits < 1000;
  };
  auto writer = CaptureWriter::create(path_, false, "", "", take);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add_interface({"p0", "", {}, 0}));
  const auto bytes = counted(10'000);
  ASSERT_TRUE(writer->write({0, Time{}, bytes, bytes.size(), false, 0, ""}));
  const std::uint64_t size = writer->size();
  ASSERT_TRUE(writer->close());
  EXPECT_GT(waits, 0);
  while (got.size() < size) take(0);
  EXPECT_EQ(got.size(), size);
}

TEST_F(CaptureWriterTest, AnOutputThatIsGivenUpIsTold) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const Fd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_LE(0, ::fcntl(reader.get(), F_SETPIPE_SZ, 4096));
  auto writer = CaptureWriter::create(path_, false, "", "", [](int) { return false; });
  ASSERT_TRUE(writer && writer->add_interface({"p0", "", {}, 0}));
  const auto bytes = counted(10'000);
  ASSERT_TRUE(writer->write({0, Time{}, bytes, bytes.size(), false, 0, ""}));
  const auto flushed = writer->flush();
  ASSERT_FALSE(flushed);
  EXPECT_NE(flushed.error().message.find("its reader takes nothing any more"), std::string::npos);
  EXPECT_EQ(writer->lost(), 1U);
  EXPECT_FALSE(writer->close());
}

/// Files have so many bytes at most, as on a full disk: what goes beyond is written in part.
class LongestFile {
 public:
  explicit LongestFile(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    signal_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~LongestFile() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }
  LongestFile(const LongestFile&) = delete;
  LongestFile& operator=(const LongestFile&) = delete;

 private:
  rlimit before_{};
  void (*signal_)(int) = nullptr;
};

TEST_F(CaptureWriterTest, AFileThatFindsNoRoomEndsWithAWholeBlock) {
  CaptureWriter writer = make();
  ASSERT_TRUE(writer.add_interface({"left", "", {}, 0}));
  const auto bytes = counted(1000);
  const std::uint64_t head = writer.size();
  const auto put = [&](std::uint32_t interface) {
    return writer.write({interface, Time{}, bytes, bytes.size(), false, 0, ""});
  };
  ASSERT_TRUE(put(0));
  const std::uint64_t block = writer.size() - head;
  // Room for ten frames and the statistics of an interface, not of two.
  constexpr std::uint64_t kStatistics = 76;
  const LongestFile limit(head + 10 * block + 2 * kStatistics - 1);
  for (int i = 1; i < 12; ++i) ASSERT_TRUE(put(0));
  ASSERT_TRUE(writer.add_interface({"right", "", {}, 0}));
  ASSERT_TRUE(put(1));
  const auto full = writer.flush();
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().message.find("cannot be written completely: File too large"),
            std::string::npos)
      << full.error().message;
  EXPECT_EQ(writer.lost(0), 2U);
  EXPECT_EQ(writer.lost(1), 1U);
  EXPECT_EQ(writer.lost(), 3U);
  ASSERT_TRUE(writer.write_statistics(0, Time{}, Time{}, 12, 2));
  ASSERT_TRUE(writer.write_statistics(1, Time{}, Time{}, 1, 1));
  EXPECT_TRUE(writer.close());
  EXPECT_EQ(std::filesystem::file_size(path_), head + 10 * block + kStatistics);
  auto reader = CaptureReader::open(path_);
  ASSERT_TRUE(reader);
  CaptureRecord record;
  int frames = 0;
  for (auto more = reader->next(record); more && *more; more = reader->next(record)) ++frames;
  EXPECT_EQ(frames, 10);
  EXPECT_FALSE(reader->cut_off());
  ASSERT_EQ(reader->interfaces().size(), 1U);
  EXPECT_EQ(reader->interfaces()[0].missed, 2U);
}

TEST_F(CaptureWriterTest, AFullDiskIsTold) {
  const auto full = CaptureWriter::create("/dev/full", false, "", "");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message,
            "/dev/full: cannot be written completely: No space left on device; make room, or write "
            "smaller files (--file-size, --files)");
}

}  // namespace
}  // namespace mtl::conformance
