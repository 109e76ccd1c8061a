// Captures: what is written is read back, and what cannot be replayed is named.

#include "conformance/pcap_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "conformance/hex.h"

namespace mtl::conformance {
namespace {

// The classic format, as its specification lays it out, in this machine's byte order: magic
// (a1b23c4d for nanoseconds), version 2.4, time zone and accuracy 0, snap length, link type 1.
constexpr const char* kHeader = "4d3cb2a1020004000000000000000000ffff000001000000";
constexpr const char* kMicroHeader = "d4c3b2a1020004000000000000000000ffff000001000000";
constexpr const char* kRawIpHeader = "4d3cb2a1020004000000000000000000ffff000065000000";

class PcapFile : public testing::Test {
 protected:
  void SetUp() override {
    // One folder for each test: they may run side by side.
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / ("mtl_pcap_" + std::string(info->name()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "a.pcap";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write_hex(const std::string& digits) {
    const auto bytes = from_hex(digits);
    ASSERT_TRUE(bytes);
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes->data()),
              static_cast<std::streamsize>(bytes->size()));
  }
  /// The message of a refused file; it must name the file.
  std::string error() {
    const auto frames = read_capture(path_);
    if (frames) return "read";
    EXPECT_NE(frames.error().message.find(path_.string()), std::string::npos);
    return frames.error().message;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST_F(PcapFile, HeaderAloneHasNoFrames) {
  write_hex(kHeader);
  const auto frames = read_capture(path_);
  ASSERT_TRUE(frames) << frames.error().message;
  EXPECT_TRUE(frames->empty());
}

TEST_F(PcapFile, ReadsNanoseconds) {
  // 2 s and 3 ns, 4 bytes.
  write_hex(std::string(kHeader) +
            "02000000"
            "03000000"
            "04000000"
            "04000000"
            "01020304");
  const auto frames = read_capture(path_);
  ASSERT_TRUE(frames) << frames.error().message;
  ASSERT_EQ(frames->size(), 1U);
  EXPECT_EQ(nanos(frames->front().at), 2'000'000'003);
  EXPECT_EQ(to_hex(frames->front().bytes), "01020304");
}

TEST_F(PcapFile, ReadsMicroseconds) {
  write_hex(std::string(kMicroHeader) +
            "02000000"
            "03000000"
            "01000000"
            "01000000"
            "ff");
  const auto frames = read_capture(path_);
  ASSERT_TRUE(frames) << frames.error().message;
  ASSERT_EQ(frames->size(), 1U);
  EXPECT_EQ(nanos(frames->front().at), 2'000'003'000);
}

TEST_F(PcapFile, WritesWhatItReads) {
  std::vector<CapturedFrame> frames;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{60}, std::size_t{65535}}) {
    const auto n = static_cast<std::int64_t>(frames.size());
    frames.push_back({Time{Duration{n * 4'000'000'999 + 999'999'999}},
                      std::vector<std::byte>(size, static_cast<std::byte>(n))});
  }
  const auto written = write_capture(path_, frames);
  ASSERT_TRUE(written) << written.error().message;
  const auto read = read_capture(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, frames);
}

TEST_F(PcapFile, WritesTheFormatByteForByte) {
  const std::vector<CapturedFrame> frames{{Time{Duration{2'000'000'003}}, *from_hex("01020304")}};
  ASSERT_TRUE(write_capture(path_, frames));
  std::ifstream in(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(to_hex(std::as_bytes(std::span{text})), std::string(kHeader) +
                                                        "02000000"
                                                        "03000000"
                                                        "04000000"
                                                        "04000000"
                                                        "01020304");
}

TEST_F(PcapFile, NamesWhatCannotBeRead) {
  EXPECT_TRUE(has(error(), "No such file"));
  write_hex("");
  EXPECT_TRUE(has(error(), "cannot be read as a capture"));
  write_hex("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
  EXPECT_TRUE(has(error(), "cannot be read as a capture"));
  write_hex(kRawIpHeader);
  EXPECT_TRUE(has(error(), "only Ethernet"));
}

TEST_F(PcapFile, NamesTheFrameThatIsCut) {
  const std::string whole =
      "02000000"
      "03000000"
      "01000000"
      "01000000"
      "ff";
  write_hex(kHeader + whole + "0200000003000000");  // the file ends within a record
  EXPECT_TRUE(has(error(), "frame 2"));
  write_hex(kHeader + whole +
            "02000000"
            "03000000"
            "02000000"
            "02000000"
            "ff");  // ... within a frame
  EXPECT_TRUE(has(error(), "frame 2"));
  write_hex(kHeader + whole +
            "02000000"
            "03000000"
            "01000000"
            "02000000"
            "ff");  // the snap length
  EXPECT_TRUE(has(error(), "frame 2 has 1 of its 2 bytes"));
  write_hex(kHeader + whole +
            "02000000"
            "00ca9a3b"
            "01000000"
            "01000000"
            "ff");  // 10^9 ns
  EXPECT_TRUE(has(error(), "frame 2 has an impossible time"));
}

TEST_F(PcapFile, RefusesToWriteWhatDoesNotFit) {
  const std::vector<CapturedFrame> early{{Time{Duration{-1}}, {}}};
  EXPECT_FALSE(write_capture(path_, early));
  const std::vector<CapturedFrame> late{{Time{Duration{4'294'967'296'000'000'000}}, {}}};
  EXPECT_FALSE(write_capture(path_, late));
  const std::vector<CapturedFrame> long_one{{Time{}, std::vector<std::byte>(65536)}};
  EXPECT_FALSE(write_capture(path_, long_one));
  EXPECT_FALSE(write_capture(folder_ / "none" / "a.pcap", {}));
  const auto full = write_capture("/dev/full", early);
  EXPECT_FALSE(full);
}

TEST_F(PcapFile, NoticesAFullDisk) {
  const std::vector<CapturedFrame> frames(100, {Time{}, std::vector<std::byte>(1000)});
  const auto written = write_capture("/dev/full", frames);
  ASSERT_FALSE(written);
  EXPECT_TRUE(has(written.error().message, "/dev/full"));
}

}  // namespace
}  // namespace mtl::conformance
