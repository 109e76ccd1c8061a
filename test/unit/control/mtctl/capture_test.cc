// mtctl capture against a daemon whose memory the test fills.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../fake_daemon.h"
#include "capture/tap.h"
#include "conformance/capture_reader.h"
#include "ran.h"
#include "sample_node.h"
#include "tools/mtctl/quantity.h"

namespace mtl::tools {
namespace {

using capture::Outcome;
using conformance::CaptureReader;
using conformance::CaptureRecord;
using control::FakeDaemon;
using ::testing::HasSubstr;

class MtctlCapture : public ::testing::Test {
 protected:
  MtctlCapture() {
    std::string name = std::filesystem::temp_directory_path() / "mtl-capture-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    daemon_.on_server([&] {
      daemon_.target.node = sample_node();
      daemon_.target.on_capture = [this](const auto& call, Fd memory) { begin(call, memory); };
      daemon_.target.capture_grant.set_clock_ns(1'000);
      daemon_.target.capture_grant.set_unix_ns(1'800'000'000'000'001'000);
    });
  }
  ~MtctlCapture() override { std::filesystem::remove_all(folder_); }

  /// The daemon's part: takes in the memory, and puts down what there is when a capture begins.
  void begin(const mtlink::control::Capture& call, const Fd& memory) {
    auto adopted = capture::Segment::adopt(
        memory, static_cast<std::size_t>(daemon_.target.node.workers_size()),
        std::uint64_t{call.ring_kib()} * 1024);
    ASSERT_TRUE(adopted) << adopted.error().message;
    segment_ = std::move(*adopted);
    segment_->add_interface({"cable0", "port 0 of node 11 (sw1)", PortId{0}, {}, {}});
    segment_->add_interface({"slot1", "port 1 of node 11 (sw1)", PortId{1}, VlanId{7}, {}});
    tap_ = std::make_unique<capture::Tap>(*segment_, 0, capture::Filter{}, 2);
    for (const auto& put : frames_) put();
  }
  void put(std::uint16_t interface, std::int64_t at, std::size_t length,
           capture::Verdict verdict = {}) {
    tap_->take(std::vector<std::byte>(length), 0x88B5);
    tap_->told(interface, Time{Duration{at}}, verdict);
  }
  /// To be there when the capture begins.
  void frame(std::uint16_t interface, std::int64_t at, std::size_t length,
             capture::Verdict verdict = {}) {
    frames_.push_back([=, this] { put(interface, at, length, verdict); });
  }
  /// The reader has taken out all that was put down. Another thread than the server's.
  void until_read() {
    daemon_.target.calls.take();  // the capture has begun
    while (segment_->tail(0) != segment_->head(0)) std::this_thread::yield();
  }
  Ran run_it(std::vector<std::string> arguments, bool terminal = false) {
    arguments.insert(arguments.begin(), {"-s", daemon_.path(), "capture"});
    return mtctl(std::move(arguments), terminal);
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  static std::string text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  struct Read {
    std::vector<std::int64_t> times;
    std::vector<std::uint32_t> interfaces;
    std::vector<std::uint64_t> missed;  ///< by interface
  };
  static Read read(const std::string& path) {
    Read out;
    auto reader = CaptureReader::open(path);
    EXPECT_TRUE(reader) << reader.error().message;
    CaptureRecord record;
    for (;;) {
      const auto more = reader->next(record);
      EXPECT_TRUE(more);
      if (!more || !*more) break;
      out.times.push_back(nanos(record.at));
      out.interfaces.push_back(record.interface);
    }
    for (const auto& interface : reader->interfaces()) out.missed.push_back(interface.missed);
    return out;
  }

  FakeDaemon daemon_;
  std::filesystem::path folder_;
  std::vector<std::function<void()>> frames_;
  std::unique_ptr<capture::Segment> segment_;
  std::unique_ptr<capture::Tap> tap_;
};

TEST_F(MtctlCapture, WritesWhatTheWorkersPutDown) {
  frame(0, 2'000, 60);
  frame(1, 2'500, 64, {Outcome::kDropped, capture::reason(Drop::kStale)});
  frame(0, 3'000, 60);
  const auto ran = run_it({"cable0", "-w", path("x.pcapng"), "-c", "2", "--kind", "DATA,DATA", "1",
                           "--vc", "0,4", "--direction", "in", "--node", "9", "--drops", "--snap",
                           "158", "--buffer", "5"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("", ran.out);
  EXPECT_EQ("2 frames captured in " + path("x.pcapng") + "; 0 missed\n", ran.err);
  const auto asked = daemon_.target.calls.take().capture();
  EXPECT_THAT(asked.ports(), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(asked.kinds(), ::testing::ElementsAre("DATA", "DATA"));
  EXPECT_THAT(asked.vcs(), ::testing::ElementsAre(0, 4));
  EXPECT_EQ(mtlink::control::Capture::IN, asked.direction());
  EXPECT_EQ(9u, asked.node());
  EXPECT_TRUE(asked.drops_only());
  EXPECT_EQ(158u, asked.snap());
  EXPECT_EQ(8u * 1024, asked.ring_kib());
  const Read seen = read(path("x.pcapng"));
  EXPECT_THAT(seen.times,
              ::testing::ElementsAre(1'800'000'000'000'002'000, 1'800'000'000'000'002'500));
  EXPECT_THAT(seen.interfaces, ::testing::ElementsAre(0, 1));
  const std::string bytes = text(path("x.pcapng"));
  for (const char* there :
       {"drop: stale", "accepted", "cable0", "port 1 of node 11 (sw1), VLAN 7",
        "ports cable0, 1, incoming only, kinds DATA, DATA, VCs 0, 4, DATA from or "
        "to node 9, drops only"}) {
    EXPECT_THAT(bytes, HasSubstr(there));
  }
  daemon_.target.captures_ended.take();
}

// A record of 9,030 bytes takes 9,088 (test/unit/capture): 115 fit into a ring of 1 MiB.
constexpr int kFit = 115;
constexpr std::size_t kLong = 9030;

TEST_F(MtctlCapture, TellsWhatWasMissed) {
  for (int i = 0; i < kFit + 2; ++i) frame(0, 2'000, kLong);
  const auto ran = run_it({"-w", path("x.pcapng"), "--time", "50ms", "--buffer", "1"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("115 frames captured in " + path("x.pcapng") +
                                 "; 2 missed, as they "
                                 "came faster than they were written"));
  EXPECT_THAT(read(path("x.pcapng")).missed, ::testing::ElementsAre(2, 0));
}

// What comes behind the last frame that was asked for is not this capture's.
TEST_F(MtctlCapture, WithACountNothingBehindItIsMissed) {
  for (int i = 0; i < kFit + 2; ++i) frame(0, 2'000, kLong);
  const auto ran = run_it({"-w", path("x.pcapng"), "-c", "100", "--buffer", "1"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("100 frames captured in " + path("x.pcapng") + "; 0 missed\n", ran.err);
  EXPECT_THAT(read(path("x.pcapng")).missed, ::testing::ElementsAre(0, 0));
}

TEST_F(MtctlCapture, InJsonTheSumsAreOneObject) {
  frame(0, 2'000, 60);
  const auto ran = run_it({"-j", "-w", path("x.pcapng"), "-c", "1"});
  EXPECT_EQ("{\"frames\":1,\"removed\":0,\"missed\":0,\"ports_left_out\":0,\"files\":[\"" +
                path("x.pcapng") + "\"]}\n",
            ran.out);
  EXPECT_EQ("", ran.err);
}

TEST_F(MtctlCapture, ARowOfFilesKeepsTheNewestAndEachIsWhole) {
  for (int i = 0; i < 40; ++i) frame(1, 1'000 * i, 400);
  const auto ran =
      run_it({"-w", path("x.pcapng"), "-c", "40", "--file-size", "2k", "--files", "2"});
  EXPECT_EQ(0, ran.status) << ran.err;
  // A frame takes 404 + 60 bytes: four or five to a file, whose beginning takes some 400.
  const std::vector<std::string> files = names();
  ASSERT_EQ(2u, files.size());
  EXPECT_THAT(ran.err, HasSubstr(files[0] + ", " + files[1]));
  std::vector<std::int64_t> times;
  for (const std::string& file : files) {
    const Read seen = read(file);
    ASSERT_EQ(2u, seen.missed.size());
    times.insert(times.end(), seen.times.begin(), seen.times.end());
  }
  ASSERT_GT(times.size(), 3u);
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_EQ(times[i - 1] + 1'000, times[i]);
  EXPECT_EQ(1'800'000'000'000'039'000, times.back());
  EXPECT_THAT(ran.err, HasSubstr("40 frames captured, " + std::to_string(40 - times.size()) +
                                 " of them in files removed since, in "));
  EXPECT_THAT(run_it({"-w", path("x.pcapng"), "-c", "1", "--file-size", "2k"}).err,
              HasSubstr("is there already"));
}

TEST_F(MtctlCapture, WhatWasMissedIsCountedInTheFileInWhichItIsTold) {
  for (int i = 0; i < kFit + 2; ++i) frame(0, 2'000, kLong);
  std::thread later([this] {
    until_read();
    put(0, 3'000, kLong);
  });
  const auto ran =
      run_it({"-w", path("x.pcapng"), "-c", "116", "--file-size", "100k", "--buffer", "1"});
  later.join();
  EXPECT_EQ(0, ran.status) << ran.err;
  const std::vector<std::string> files = names();
  ASSERT_GT(files.size(), 2u);
  for (const std::string& file : files) {
    EXPECT_THAT(read(file).missed, ::testing::ElementsAre(file == files.back() ? 2 : 0, 0)) << file;
  }
}

// The end of a longer row would stay, and be taken for the end of this one.
TEST_F(MtctlCapture, ARowThatIsReplacedIsReplacedAsAWhole) {
  for (const char* name : {"x_00001.pcapng", "x_00017.pcapng", "x_123456.pcapng"}) {
    std::ofstream(path(name)) << "former";
  }
  for (const char* name : {"x_0001.pcapng", "x_00001.pcap", "xx_00001.pcapng", "x_0000a.pcapng"}) {
    std::ofstream(path(name)) << "another's";
  }
  frame(0, 2'000, 60);
  const auto ran = run_it({"-w", path("x.pcapng"), "-c", "1", "--file-size", "2k", "--overwrite"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ(1u, read(path("x_00001.pcapng")).times.size());
  EXPECT_FALSE(std::filesystem::exists(path("x_00017.pcapng")));
  EXPECT_FALSE(std::filesystem::exists(path("x_123456.pcapng")));
  EXPECT_EQ(5u, names().size());
}

TEST_F(MtctlCapture, PortsThatFoundNoPlaceAreTold) {
  frames_.push_back([this] {
    for (std::size_t i = 2; i < capture::Segment::kMaxInterfaces + 3; ++i) {
      segment_->add_interface({"p", "", PortId{2}, {}, {}});
    }
  });
  frame(0, 2'000, 60);
  EXPECT_THAT(run_it({"-w", path("x.pcapng"), "-c", "1"}).err,
              HasSubstr("0 missed; 3 ports that came later are not in it"));
}

// A record that is not right ends the capture; what came before it can be read, and the file ends
// as it should.
TEST_F(MtctlCapture, AWrongRecordLosesNothingBeforeIt) {
  frame(0, 2'000, 60);
  frame(0, 3'000, 60);
  frames_.push_back([this] {
    std::fill_n(segment_->ring(0) + 128, 4, std::byte{0xFF});  // bytes of the second record
  });
  const auto ran = run_it({"-w", path("x.pcapng")});
  EXPECT_EQ(1, ran.status);
  EXPECT_THAT(ran.err, HasSubstr("1 frames captured"));
  EXPECT_THAT(ran.err, HasSubstr("a record in the memory"));
  const Read seen = read(path("x.pcapng"));
  EXPECT_EQ(1u, seen.times.size());
  EXPECT_EQ(2u, seen.missed.size());
}

/// Standard output is a pipe for as long as it lives.
class OutputToPipe {
 public:
  OutputToPipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(0, ::pipe2(ends.data(), O_CLOEXEC));
    reader = Fd(ends[0]);
    const Fd writer(ends[1]);
    EXPECT_LE(0, ::fcntl(writer.get(), F_SETPIPE_SZ, 4096));
    ::dup2(writer.get(), STDOUT_FILENO);
  }
  ~OutputToPipe() { ::dup2(before_.get(), STDOUT_FILENO); }
  OutputToPipe(const OutputToPipe&) = delete;
  OutputToPipe& operator=(const OutputToPipe&) = delete;

  std::string read_all() const {
    std::string all;
    std::array<char, 4096> some;
    for (ssize_t n = 0; (n = ::read(reader.get(), some.data(), some.size())) > 0;) {
      all.append(some.data(), static_cast<std::size_t>(n));
    }
    return all;
  }

  Fd reader;

 private:
  Fd before_{::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)};
};

// A reader that takes nothing, like a pager: Ctrl-C ends us nevertheless.
TEST_F(MtctlCapture, ASignalEndsItThoughTheOutputIsFull) {
  for (int i = 0; i < 3; ++i) frame(0, 2'000, kLong);
  const OutputToPipe pipe;
  std::thread user([this, reader = ::pthread_self()] {
    until_read();
    ::pthread_kill(reader, SIGINT);  // which a capture that runs has blocked
  });
  const auto ran = run_it({"-w", "-"});
  user.join();
  EXPECT_EQ(1, ran.status);
  EXPECT_THAT(ran.err, HasSubstr("standard output: cannot be written completely: its reader takes "
                                 "nothing any more"));
  EXPECT_THAT(ran.err, HasSubstr("frames captured; 0 missed"));
  daemon_.target.captures_ended.take();
}

// Its limits let the node go at once, and nothing is lost: the reader gets all when it likes.
TEST_F(MtctlCapture, ALimitLetsTheNodeGoThoughTheOutputIsFull) {
  for (int i = 0; i < 3; ++i) frame(0, 2'000, kLong);
  for (const std::vector<std::string>& limit :
       {std::vector<std::string>{"--time", "50ms"}, std::vector<std::string>{"-c", "3"}}) {
    auto pipe = std::make_unique<OutputToPipe>();
    std::string all;
    std::thread reader([&] {
      daemon_.target.captures_ended.take();
      all = pipe->read_all();
    });
    std::vector<std::string> arguments{"-w", "-"};
    arguments.insert(arguments.end(), limit.begin(), limit.end());
    const auto ran = run_it(arguments);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);  // the last writer's end
    reader.join();
    pipe.reset();
    EXPECT_EQ(0, ran.status) << ran.err;
    EXPECT_EQ("3 frames captured; 0 missed\n", ran.err);
    std::ofstream(path("read.pcapng")) << all;
    EXPECT_EQ(3u, read(path("read.pcapng")).times.size());
  }
}

TEST_F(MtctlCapture, AReaderThatEndsIsTold) {
  for (int i = 0; i < 3; ++i) frame(0, 2'000, kLong);
  OutputToPipe pipe;
  std::thread reader([&] {
    until_read();
    pipe.reader.reset();
  });
  const auto ran = run_it({"-w", "-"});
  reader.join();
  EXPECT_EQ(1, ran.status);
  EXPECT_THAT(ran.err, HasSubstr("Broken pipe; its reader has ended"));
}

TEST_F(MtctlCapture, WhenTheDaemonEndsWhatCameIsWritten) {
  frame(0, 2'000, 60);
  std::thread later([this] {
    daemon_.target.calls.take();
    daemon_.on_server([&] { daemon_.server().close(); });
  });
  const auto ran = run_it({"-w", path("x.pcapng")});
  later.join();
  EXPECT_EQ(1, ran.status);
  EXPECT_THAT(ran.err, HasSubstr("1 frames captured"));
  EXPECT_THAT(ran.err, HasSubstr("mtctl: mtswitchd ended the capture"));
  EXPECT_EQ(1u, read(path("x.pcapng")).times.size());
}

TEST_F(MtctlCapture, WhatIsRefusedLeavesNoFileAndReplacesNone) {
  daemon_.on_server([&] { daemon_.target.fail = "sw1 is being captured already"; });
  std::ofstream(path("x.pcapng")) << "precious";
  EXPECT_THAT(run_it({"-w", path("x.pcapng"), "--overwrite"}).err, HasSubstr("sw1 is being"));
  EXPECT_EQ("precious", text(path("x.pcapng")));
  EXPECT_EQ(1, run_it({"-w", path("y.pcapng")}).status);
  EXPECT_FALSE(std::filesystem::exists(path("y.pcapng")));
}

TEST_F(MtctlCapture, AFileThatCannotBeWrittenIsTold) {
  EXPECT_THAT(run_it({"-w", path("none/x.pcapng")}).err, HasSubstr("No such file or directory"));
  std::ofstream(path("x.pcapng")) << "precious";
  EXPECT_THAT(run_it({"-w", path("x.pcapng")}).err, HasSubstr("is there already"));
  EXPECT_EQ("precious", text(path("x.pcapng")));
  EXPECT_THAT(run_it({"-w", "/dev/full"}).err, HasSubstr("No space left on device"));
  EXPECT_THAT(run_it({"-w", path("y.pcapng"), "nobody"}).err, HasSubstr("has no port nobody"));
  EXPECT_FALSE(std::filesystem::exists(path("y.pcapng")));
}

TEST_F(MtctlCapture, WrongUsageIsStatus2) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{},
                                                {"-w"},
                                                {"-w", "x", "--direction", "up"},
                                                {"-w", "x", "--kind", "data"},
                                                {"-w", "x", "--vc", "8"},
                                                {"-w", "x", "--node", "0"},
                                                {"-w", "x", "--snap", "0"},
                                                {"-w", "x", "--snap", "65537"},
                                                {"-w", "x", "--files", "2"},
                                                {"-w", "x", "--file-size", "10"},
                                                {"-w", "x", "--buffer", "1025"},
                                                {"-w", "x", "-c", "0"},
                                                {"-w", "x", "--time", "0s"},
                                                {"-w", "-", "--file-size", "1M"},
                                                {"-w", "-", "-j"}}) {
    const auto ran = run_it(wrong);
    std::string shown;
    for (const auto& argument : wrong) shown += argument + " ";
    EXPECT_EQ(2, ran.status) << shown << ran.err;
    EXPECT_EQ(1, std::count(ran.err.begin(), ran.err.end(), '\n')) << shown << ran.err;
  }
  EXPECT_THAT(run_it({"-w", "-"}, true).err, HasSubstr("standard output is a terminal"));
}

TEST(Size, IsBytesWithDecimalUnits) {
  const std::pair<const char*, std::uint64_t> good[] = {{"1000", 1'000},
                                                        {"1k", 1'000},
                                                        {"10M", 10'000'000},
                                                        {"2.5G", 2'500'000'000},
                                                        {"1T", 1'000'000'000'000}};
  for (const auto& [text, bytes] : good) {
    const auto parsed = parse_size(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(bytes, *parsed) << text;
  }
  for (const char* bad : {"", "0", "999", "1.5", "1m", "1KiB", "-1k", "k", "1.0001T1", "1001G"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
}

}  // namespace
}  // namespace mtl::tools
