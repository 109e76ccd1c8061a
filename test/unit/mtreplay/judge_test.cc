// mtreplay judge: what it takes, what it tells, and its exit status.

#include "tools/mtreplay/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "base/fd.h"
#include "conformance/hex.h"
#include "conformance/pcap_file.h"
#include "conformance/trace.h"
#include "tools/mtreplay/run.h"

namespace mtl::tools {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

const fs::path kTraces = MTL_TRACES;
constexpr const char* kDevice = "02:00:00:00:dd:00";
constexpr const char* kPeer = "02:00:00:00:ee:00";

class JudgeCommand : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("mtreplay_judge_") + info->name());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  int judge(JudgeOptions options) {
    out_.str("");
    err_.str("");
    return judge_capture(options, out_, err_);
  }
  int judge(const fs::path& capture) {
    JudgeOptions options;
    options.capture = capture;
    return judge(options);
  }
  /// The first `bytes` of a reference trace's capture.
  fs::path part_of(const std::string& name, std::size_t bytes) {
    std::ifstream file(kTraces / (name + ".pcap"), std::ios::binary);
    std::string all{std::istreambuf_iterator<char>(file), {}};
    const fs::path path = folder_ / (name + ".pcap");
    std::ofstream(path, std::ios::binary) << all.substr(0, bytes);
    return path;
  }

  /// A reference trace's capture as with a snap length of `bytes`.
  fs::path cut_to(const std::string& name, std::size_t bytes) {
    const auto frames = conformance::read_capture(kTraces / (name + ".pcap"));
    EXPECT_TRUE(frames);
    const fs::path path = folder_ / (name + ".pcap");
    std::ofstream file(path, std::ios::binary);
    const auto u32 = [&](std::size_t value) {
      const auto number = static_cast<std::uint32_t>(value);
      file.write(reinterpret_cast<const char*>(&number), sizeof number);
    };
    for (const std::size_t word : {0xA1B23C4DU, 0x00040002U, 0U, 0U, 158U, 1U}) u32(word);
    for (const conformance::CapturedFrame& frame : *frames) {
      const std::size_t captured = std::min(bytes, frame.bytes.size());
      u32(0);
      u32(static_cast<std::size_t>(nanos(frame.at)));
      u32(captured);
      u32(frame.bytes.size());
      file.write(reinterpret_cast<const char*>(frame.bytes.data()),
                 static_cast<std::streamsize>(captured));
    }
    return path;
  }

  fs::path folder_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(JudgeCommand, NothingFound) {
  EXPECT_EQ(judge(kTraces / "loss_one.pcap"), kConforms) << out_.str();
  EXPECT_THAT(out_.str(), HasSubstr(std::string("side 0: ") + kDevice + " (node 7 port 0)"));
  EXPECT_THAT(out_.str(), HasSubstr("0 findings told"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("ends within")));
  EXPECT_EQ(err_.str(), "");
}

// The peer sends a packet of class 0 on VC 4 in frame 13, and says nothing wrong but such.
TEST_F(JudgeCommand, NamesFrameSideRuleAndWhy) {
  EXPECT_EQ(judge(kTraces / "wrong_class.pcap"), kDiffers);
  EXPECT_THAT(out_.str(), HasSubstr("frame 13, 0.000 007 100 s: link 0, " + std::string(kPeer) +
                                    " (node 20 port 0): N1: a packet of class 0 on VC 4\n"));
  // Of its seven DATA one is right.
  EXPECT_THAT(out_.str(), HasSubstr("side 1 broke: N1 x 6"));
}

TEST_F(JudgeCommand, OnlyOneSideCounts) {
  JudgeOptions options;
  options.capture = kTraces / "wrong_class.pcap";
  options.only = {kDevice};
  EXPECT_EQ(judge(options), kConforms);
  options.only = {kPeer};
  EXPECT_EQ(judge(options), kDiffers);
  options.only = {"02:00:00:00:00:00"};
  EXPECT_EQ(judge(options), kUnusable) << "a side that is not there is not judged";
  EXPECT_THAT(err_.str(), HasSubstr("no frame of a link comes from there"));
  options.only = {"dd"};
  EXPECT_EQ(judge(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("--only dd"));
}

// The peer of `malformed` breaks five rules for sure, in four frames each at least: over 600 links
// that is more than is kept. Of the last link the side asked for is told all the same.
TEST_F(JudgeCommand, FindingsOfOthersDoNotHideThoseAskedFor) {
  const auto frames = conformance::read_capture(kTraces / "malformed.pcap");
  ASSERT_TRUE(frames);
  std::vector<conformance::CapturedFrame> all;
  constexpr unsigned kLinks = 1000;
  for (unsigned link = 0; link < kLinks; ++link) {
    for (conformance::CapturedFrame frame : *frames) {
      // MACs are 02:00:00:00:dd:00 and ..:ee:00: a link for each pair of their bytes 2 and 3.
      for (const std::size_t mac : {std::size_t{0}, std::size_t{6}}) {
        if (frame.bytes[mac] != std::byte{2}) continue;
        frame.bytes[mac + 2] = static_cast<std::byte>(link >> 8);
        frame.bytes[mac + 3] = static_cast<std::byte>(link);
      }
      frame.at += std::chrono::seconds(link);
      all.push_back(std::move(frame));
    }
  }
  JudgeOptions options;
  options.capture = folder_ / "many.pcap";
  ASSERT_TRUE(conformance::write_capture(options.capture, all));
  EXPECT_EQ(judge(options), kDiffers);
  EXPECT_THAT(out_.str(), HasSubstr("10000 findings told"));
  EXPECT_THAT(out_.str(), HasSubstr("more are only counted above"));
  options.only = {"02:00:03:e7:ee:00"};  // of link 999
  EXPECT_EQ(judge(options), kDiffers);
  EXPECT_THAT(out_.str(), HasSubstr("link 999, 02:00:03:e7:ee:00"));
  options.only = {"02:00:03:e7:dd:00"};
  EXPECT_EQ(judge(options), kConforms);
}

// In loss_one the tester leaves out what is lost on the way, so that a number is missing.
TEST_F(JudgeCommand, CompleteMakesFindingsOfMore) {
  JudgeOptions options;
  options.capture = kTraces / "loss_one.pcap";
  options.complete = true;
  EXPECT_EQ(judge(options), kDiffers);
  EXPECT_THAT(out_.str(), HasSubstr("L10: sends seq"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("unless")));
  options.only = {kDevice};
  EXPECT_EQ(judge(options), kConforms) << out_.str();
}

TEST_F(JudgeCommand, Json) {
  JudgeOptions options;
  options.capture = kTraces / "wrong_class.pcap";
  options.json = true;
  EXPECT_EQ(judge(options), kDiffers);
  const json::value report = json::parse(out_.str());
  const json::value& first = report.at("findings").as_array().at(0);
  EXPECT_FALSE(report.at("cut_off").as_bool());
  EXPECT_FALSE(report.at("complete").as_bool());
  EXPECT_EQ(first.at("frame").to_number<int>(), 13);
  EXPECT_EQ(first.at("rule").as_string(), "N1");
  EXPECT_EQ(first.at("grade").as_string(), "certain");
  EXPECT_EQ(first.at("mac").as_string(), kPeer);
  const json::value& link = report.at("links").as_array().at(0);
  const json::value& device = link.at("sides").as_array().at(0);
  EXPECT_EQ(device.at("mac").as_string(), kDevice);
  EXPECT_EQ(device.at("node").to_number<int>(), 7);
  EXPECT_EQ(device.at("frames").at("INIT").to_number<int>(), 2);
  options.output = folder_ / "report.json";
  EXPECT_EQ(judge(options), kDiffers);
  EXPECT_THAT(out_.str(), HasSubstr("N1"));
  EXPECT_TRUE(fs::exists(options.output));
  options.output = folder_ / "none" / "report.json";
  EXPECT_EQ(judge(options), kUnusable);
}

// A pcapng whose interface has the name "\x1b[2J\xff", with one INIT.
TEST_F(JudgeCommand, NamesOutOfTheCaptureAreEscaped) {
  const auto frames = conformance::read_capture(kTraces / "loss_one.pcap");
  ASSERT_TRUE(frames);
  const auto& bytes = frames->at(0).bytes;
  JudgeOptions options;
  options.capture = folder_ / "named.pcapng";
  std::ofstream file(options.capture, std::ios::binary);
  const auto words = [&](std::initializer_list<std::uint32_t> all) {
    for (const std::uint32_t word : all) {
      file.write(reinterpret_cast<const char*>(&word), sizeof word);
    }
  };
  words({0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0xFFFFFFFF, 0xFFFFFFFF, 28});
  words({1, 32, 1, 0, 2 | 5U << 16});  // if_name of 5 bytes
  file << "\x1b[2J\xff" << std::string(3, '\0');
  words({32});
  const auto length = static_cast<std::uint32_t>(bytes.size());
  const std::uint32_t padded = (length + 3) / 4 * 4;
  words({6, 32 + padded, 0, 0, 0, length, length});
  file.write(reinterpret_cast<const char*>(bytes.data()), length);
  file << std::string(padded - length, '\0');
  words({32 + padded});
  file.close();
  EXPECT_EQ(judge(options), kConforms) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("interface \\x1b[2J\\xff\n"));
  options.json = true;
  EXPECT_EQ(judge(options), kConforms);
  EXPECT_THAT(out_.str(), HasSubstr("\\\\x1b[2J\\\\xff"));
}

// /dev/full takes nothing, as a disk that is full.
TEST_F(JudgeCommand, WhatCannotBeWrittenToItsEndIsAnError) {
  JudgeOptions options;
  options.capture = kTraces / "loss_one.pcap";
  for (const bool json : {false, true}) {
    options.json = json;
    std::ofstream full("/dev/full");
    err_.str("");
    EXPECT_EQ(judge_capture(options, full, err_), kUnusable);
    EXPECT_THAT(err_.str(), HasSubstr("standard output: cannot be written"));
  }
  options.output = "/dev/full";
  EXPECT_EQ(judge(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("--output /dev/full: cannot be written"));
}

TEST_F(JudgeCommand, AReportDoesNotReplaceTheCapture) {
  JudgeOptions options;
  options.capture = part_of("loss_one", 1000);
  options.json = true;
  options.output = options.capture;
  EXPECT_EQ(judge(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("which is read; name another file"));
  EXPECT_EQ(fs::file_size(options.capture), 1000U);
}

TEST_F(JudgeCommand, NeverJudgesNothing) {
  EXPECT_EQ(judge(folder_ / "none.pcap"), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("none.pcap: cannot be opened"));
  EXPECT_EQ(judge(part_of("loss_one", 24)), kUnusable) << "a capture without frames";
  EXPECT_THAT(err_.str(), HasSubstr("no frame of a link"));
  JudgeOptions options;
  options.capture = kTraces / "loss_one.pcap";
  options.ether_type = 0x88B6;
  EXPECT_EQ(judge(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("0x88b6 (see --ether-type)"));
}

// With 34 bytes of each frame no header CRC can be checked but that of a NACK of one range, of
// which there are two.
TEST_F(JudgeCommand, FramesThatAreAllCutAreNotJudged) {
  EXPECT_EQ(judge(cut_to("loss_one", 34)), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr(": 2 frames of links were judged, and "));
  EXPECT_THAT(err_.str(), HasSubstr("captured too short (capture 158 bytes"));
  EXPECT_EQ(judge(cut_to("loss_one", 33)), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("no frame of a link in it could be judged: "));
  EXPECT_THAT(err_.str(), HasSubstr("captured too short (capture 158 bytes"));
  EXPECT_EQ(judge(cut_to("loss_one", 158)), kConforms) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("of them judged"));
}

// A side that sent nothing right was not judged, though the other one was.
TEST_F(JudgeCommand, ASideAskedForOfWhichNothingCouldBeJudged) {
  auto frames = conformance::read_capture(kTraces / "loss_one.pcap");
  ASSERT_TRUE(frames);
  for (conformance::CapturedFrame& frame : *frames) {
    if (frame.bytes[10] == std::byte{0xdd}) frame.bytes[20] ^= std::byte{1};  // its source; ack
  }
  const fs::path path = folder_ / "damaged.pcap";
  ASSERT_TRUE(conformance::write_capture(path, *frames));
  JudgeOptions options;
  options.capture = path;
  options.only = {kDevice};
  EXPECT_EQ(judge(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr(std::string("--only ") + kDevice));
  EXPECT_THAT(err_.str(), HasSubstr("wrong header CRC (L1)"));
}

/// The frames of a reference trace that one side sent.
fs::path one_way(const std::string& name, const std::string& side, const fs::path& folder) {
  auto frames = conformance::read_capture(kTraces / (name + ".pcap"));
  EXPECT_TRUE(frames);
  const auto mac = conformance::mac_from_text(side);
  std::erase_if(*frames, [&](const conformance::CapturedFrame& frame) {
    return !std::equal(mac->begin(), mac->end(), frame.bytes.begin() + 6);
  });
  const fs::path path = folder / (name + "_" + side.substr(12, 2) + ".pcap");
  EXPECT_TRUE(conformance::write_capture(path, *frames));
  return path;
}

TEST_F(JudgeCommand, ACaptureOfOneDirectionSaysSo) {
  EXPECT_EQ(judge(one_way("loss_one", kDevice, folder_)), kConforms);
  EXPECT_THAT(out_.str(), HasSubstr("This capture shows one direction only, nothing that " +
                                    std::string(kPeer) + " sent"));
  EXPECT_THAT(out_.str(), HasSubstr("`mtctl capture`"));
  judge(kTraces / "loss_one.pcap");
  EXPECT_THAT(out_.str(), Not(HasSubstr("one direction")));
}

TEST_F(JudgeCommand, TheSummaryCountsNoFindingThatIsNotTold) {
  const auto traces = conformance::find_traces(kTraces);
  ASSERT_TRUE(traces);
  for (const fs::path& trace : *traces) {
    for (const char* side : {kDevice, kPeer}) {
      judge(one_way(trace.stem(), side, folder_));
      if (out_.str().find("\n0 findings told\n") == std::string::npos) continue;
      EXPECT_THAT(out_.str(), Not(HasSubstr(" broke: "))) << trace.stem() << " " << side;
    }
  }
}

/// Standard input for as long as it lives: what is written into a pipe.
class PipedInput {
 public:
  PipedInput() : before_(::dup(STDIN_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
    writer_.reset(ends[1]);
  }
  ~PipedInput() { ::dup2(before_.get(), STDIN_FILENO); }
  PipedInput(const PipedInput&) = delete;
  PipedInput& operator=(const PipedInput&) = delete;

  void write(std::string_view text) {
    EXPECT_EQ(::write(writer_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// What was written has been read.
  void wait_read() const {
    for (int left = 1; left != 0;) {
      ASSERT_EQ(::ioctl(writer_.get(), FIONREAD, &left), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void end() { writer_.reset(); }

 private:
  const Fd before_;
  Fd writer_;
};

/// Does something while the capture is judged, in a thread that takes no signals.
template <class Work>
std::thread meanwhile(Work work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread thread(work);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As tcpdump does it: Ctrl-C is for both, and tcpdump then writes what it holds.
TEST_F(JudgeCommand, OfStandardInputASignalEndsTheCaptureAndNotTheReport) {
  const std::string all = bytes_of(kTraces / "loss_one.pcap");
  judge(kTraces / "loss_one.pcap");
  const std::string whole = out_.str();
  PipedInput input;
  std::thread writer = meanwhile([&] {
    input.write(all.substr(0, all.size() / 2));
    input.wait_read();
    ::kill(::getpid(), SIGINT);
    input.write(all.substr(all.size() / 2));
    input.end();
  });
  EXPECT_EQ(judge("-"), kConforms) << err_.str();
  writer.join();
  EXPECT_EQ(out_.str(), whole);
}

TEST_F(JudgeCommand, ASecondSignalEndsItThoughTheWriterStays) {
  const std::string all = bytes_of(kTraces / "loss_one.pcap");
  PipedInput input;
  std::thread writer = meanwhile([&] {
    input.write(all.substr(0, all.size() - 1));
    input.wait_read();
    ::kill(::getpid(), SIGINT);
    ::kill(::getpid(), SIGTERM);
  });
  EXPECT_EQ(judge("-"), kConforms) << err_.str();
  writer.join();
  EXPECT_THAT(out_.str(), HasSubstr("0 findings told"));
  EXPECT_THAT(out_.str(), HasSubstr("the capture ends within a frame"));
}

TEST_F(JudgeCommand, ACaptureThatEndsWithinAFrameIsJudgedAsFarAsItGoes) {
  EXPECT_EQ(judge(part_of("wrong_class", 1300)), kConforms);
  EXPECT_THAT(out_.str(), HasSubstr("ends within a frame"));
}

TEST_F(JudgeCommand, ADamagedCaptureIsJudgedAndIsAnError) {
  // Frame 1 is an INIT of 70 bytes, behind the file's header and its own.
  const fs::path path = part_of("loss_one", 24 + 16 + 70);
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string(64, '\xFF');
  EXPECT_EQ(judge(path), kUnusable);
  EXPECT_THAT(out_.str(), HasSubstr("link 0"));
  EXPECT_THAT(err_.str(), HasSubstr("damaged"));
}

}  // namespace
}  // namespace mtl::tools
