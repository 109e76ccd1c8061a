// mtreplay live, as far as no device is needed: what it takes, what it asks of the stimulus
// command, and that what was not run is never told as passed.

#include "tools/mtreplay/live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <boost/json/parse.hpp>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tools/mtreplay/live_session.h"
#include "tools/mtreplay/stimulus_command.h"

namespace mtl::tools {
namespace {

namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

const std::filesystem::path kTraces = MTL_TRACES;

/// In a network namespace of its own, with t0 and d0 at the ends of a wire that nobody is at.
class Live : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      why_not_ = std::string("no network namespace is to be had: ") + std::strerror(errno);
    } else if (std::system("ip link add t0 type veth peer name d0 && ip link set t0 up && "
                           "ip link set d0 up") != 0) {
      why_not_ = "no veth is to be had";
    }
  }
  void SetUp() override {
    if (!why_not_.empty()) GTEST_SKIP() << why_not_;
  }
  Live() {
    options_.traces = {kTraces / "bringup_peer_first"};
    options_.interfaces = {"0=t0"};
  }
  int run() {
    std::ostringstream out;
    std::ostringstream err;
    const int status = run_live(options_, out, err);
    out_ = out.str();
    err_ = err.str();
    return status;
  }
  /// The trace is not run, and why.
  void expect_not_run(const std::string& why) {
    EXPECT_EQ(run(), kUnusable);
    EXPECT_THAT(out_, HasSubstr("not run bringup_peer_first: "));
    EXPECT_THAT(out_, HasSubstr(why));
    EXPECT_THAT(out_,
                HasSubstr("0 of 1 traces were run: 0 conform, 0 differ, 0 inconclusive; 1 not "
                          "run, 0 unusable"));
    EXPECT_THAT(err_, HasSubstr("no trace was run"));
  }

  static inline std::string why_not_;
  LiveCommandOptions options_;
  std::string out_;
  std::string err_;
};

TEST_F(Live, InterfacesAreNamedByPortOnce) {
  const std::vector<std::vector<std::string>> bad{{"eth0"},       {"=eth0"},     {"0="},
                                                  {"x=eth0"},     {"-1=eth0"},   {"1024=eth0"},
                                                  {"0=a", "0=b"}, {"0=a", "1=a"}};
  for (const auto& interfaces : bad) {
    options_.interfaces = interfaces;
    EXPECT_EQ(run(), kUnusable);
    EXPECT_THAT(err_, HasSubstr("--interface " + interfaces.back() + ": "));
    EXPECT_EQ(out_, "");
  }
}

TEST_F(Live, AnInterfaceBySeveralNamesIsOneAndATagIsNoEtherType) {
  ASSERT_EQ(std::system("ip link property add dev t0 altname t0other"), 0);
  options_.interfaces = {"0=t0", "1=t0other"};
  EXPECT_EQ(run(), kUnusable);
  EXPECT_THAT(err_, HasSubstr("--interface 1=t0other: "));
  options_.interfaces = {"0=t0"};
  options_.live.ether_type = 0x8100;
  EXPECT_EQ(run(), kUnusable);
  EXPECT_THAT(err_, HasSubstr("--ether-type 0x8100: "));
}

TEST_F(Live, ATraceIsNotRunWithoutAllThatItNeeds) {
  expect_not_run("it needs counters, enable: name a --stimulus-cmd");
  options_.interfaces = {"1=t0"};
  expect_not_run("no --interface for its port 0");
  options_.interfaces = {"0=t0"};
  options_.live.longest = std::chrono::milliseconds(1);
  options_.stimulus_command = "true";
  expect_not_run("the longest allowed is 0.001 s");
}

TEST_F(Live, WhatTheStimulusCommandAnswersIsChecked) {
  options_.stimulus_command = "read line; echo '{\"ok\": false, \"why\": \"it rains\"}'";
  expect_not_run("--stimulus-cmd cannot configure: it rains");
  options_.stimulus_command = "read line; echo '{\"ok\": 1}'; read line";
  expect_not_run("it does not say why");
  options_.stimulus_command = "true";
  expect_not_run("--stimulus-cmd: ");
  options_.stimulus_command = "read line; echo hello; read line";
  expect_not_run("answered no JSON object: hello");
  options_.stimulus_command = "read line; echo '[]'; read line";
  expect_not_run("answered no JSON object: []");
}

TEST_F(Live, AnInterfaceThatCannotBeUsedIsNoSkip) {
  options_.interfaces = {"0=nosuch0"};
  EXPECT_EQ(run(), kUnusable);
  EXPECT_THAT(err_, HasSubstr("interface nosuch0: there is none"));
  EXPECT_EQ(out_, "");
  options_.interfaces = {"0=lo"};
  EXPECT_EQ(run(), kUnusable);
  EXPECT_THAT(err_, HasSubstr("interface lo: is down"));
}

TEST_F(Live, AnInterfaceThatIsTooShortForTheTraceIsSaid) {
  ASSERT_EQ(std::system("ip link set t0 mtu 200"), 0);
  options_.stimulus_command = "cat";
  expect_not_run("`ip link set dev t0 mtu ");
  ASSERT_EQ(std::system("ip link set t0 mtu 9000"), 0);
}

/// Of a shell: is configured, and what it does then.
std::string after_configure(const std::string& then, const std::string& more = "") {
  return "read l; " + more + " echo \"{\\\"ok\\\": true, \\\"pid\\\": ${device:-0}}\"; " + then;
}

TEST_F(Live, WhatFailsOnceTheDeviceIsThereIsNoSkip) {
  options_.stimulus_command = after_configure("exit");
  EXPECT_EQ(run(), kInconclusive);
  EXPECT_THAT(out_, HasSubstr("UNSURE  bringup_peer_first: --stimulus-cmd"));
  EXPECT_THAT(out_, HasSubstr("0 conform, 0 differ, 1 inconclusive; 0 not run"));
  options_.report = ReportFormat::kTap;
  EXPECT_EQ(run(), kInconclusive);
  EXPECT_THAT(out_, HasSubstr("not ok 1 - bringup_peer_first\n"));
  EXPECT_THAT(out_, HasSubstr("    inconclusive: --stimulus-cmd"));
  EXPECT_THAT(out_, HasSubstr("# time scale "));
  options_.report = ReportFormat::kJunit;
  EXPECT_EQ(run(), kInconclusive);
  EXPECT_THAT(out_, HasSubstr("failures=\"0\" errors=\"1\" skipped=\"0\""));
  EXPECT_THAT(out_, HasSubstr("<error message=\"inconclusive: --stimulus-cmd"));
  EXPECT_THAT(out_, HasSubstr("<system-out>time scale "));
}

TEST_F(Live, ADeviceThatEndsDiffers) {
  options_.stimulus_command =
      after_configure("read l; kill $device; wait $device; exit", "sleep 100 & device=$!;");
  EXPECT_EQ(run(), kDiffers);
  EXPECT_THAT(out_, HasSubstr("ended within the trace"));
}

TEST_F(Live, ADeviceThatSendsNothingDiffersWhateverItsCommandSaysThen) {
  options_.stimulus_command = after_configure("read l; echo '{\"ok\": true}'; read l; exit");
  EXPECT_EQ(run(), kDiffers);
  EXPECT_THAT(out_, HasSubstr("never sent frame "));
}

json::object ask_line(std::size_t bytes) {
  return {{"do", "configure"}, {"more", std::string(bytes, 'x')}};
}

TEST(StimulusCommand, AnswersThatNothingWasAskedForAreNoAnswers) {
  const Interrupt interrupt;
  auto command = StimulusCommand::start(
      "read l; printf '{\"ok\": true}\\n{\"ok\": false}\\n'; cat > /dev/null", interrupt,
      std::chrono::minutes(1));
  ASSERT_TRUE(command);
  ASSERT_TRUE(command->ask(ask_line(1)));
  const auto second = command->ask(ask_line(1));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("answered more than one line"));
}

TEST(StimulusCommand, OneThatDoesNotReadIsNotWaitedForForEver) {
  const Interrupt interrupt;
  auto command =
      StimulusCommand::start("exec sleep 100", interrupt, std::chrono::milliseconds(100));
  ASSERT_TRUE(command);
  const auto answer = command->ask(ask_line(std::size_t{4} << 20));
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("does not read its input"));
}

TEST(StimulusCommand, WhatItStartedEndsWithIt) {
  pid_t child = 0;
  {
    const Interrupt interrupt;
    auto command = StimulusCommand::start("sleep 100 & read l; echo \"{\\\"pid\\\": $!}\"",
                                          interrupt, std::chrono::minutes(1));
    ASSERT_TRUE(command);
    const auto answer = command->ask(ask_line(1));
    ASSERT_TRUE(answer) << answer.error().message;
    child = static_cast<pid_t>(answer->at("pid").as_int64());
    ASSERT_TRUE(alive(child));
  }
  while (alive(child)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The first attempt configures a device and loses it; the second one cannot configure it.
TEST_F(Live, WhatWasRunOnceIsNotCalledNotRun) {
  const auto once = std::filesystem::path(testing::TempDir()) / "mtreplay_live_once";
  std::filesystem::remove(once);
  options_.stimulus_command = "if [ -e " + once.string() +
                              " ]; then read l; echo '{\"ok\": false}'; " + "else touch " +
                              once.string() + "; " + after_configure("exit") + "; fi";
  EXPECT_EQ(run(), kInconclusive);
  EXPECT_THAT(out_, HasSubstr("UNSURE  bringup_peer_first: --stimulus-cmd"));
  EXPECT_THAT(out_, HasSubstr("at attempt 2: --stimulus-cmd cannot configure"));
  std::filesystem::remove(once);
}

TEST_F(Live, ADeviceThatIsNotOnThisHostIsNotWatched) {
  options_.stimulus_command = "read l; echo '{\"ok\": true, \"pid\": 4000000}'; read l";
  expect_not_run("\"pid\": 4000000 is no process that runs on this host");
}

TEST_F(Live, AnInterfaceThatGoesDownIsNotTheDevicesFault) {
  options_.attempts = 1;
  options_.stimulus_command =
      after_configure("read l; echo '{\"ok\": true}'; ip link set d0 down; read l");
  EXPECT_EQ(run(), kInconclusive);
  EXPECT_THAT(out_, HasSubstr("UNSURE  bringup_peer_first: interface t0: has no carrier"));
  ASSERT_EQ(std::system("ip link set d0 up"), 0);
}

// Each trace would take as long.
TEST_F(Live, ACommandThatHangsEndsTheRun) {
  options_.traces.push_back(kTraces / "bringup_dut_first");
  options_.patience = std::chrono::milliseconds(100);
  for (const std::string& command :
       {std::string("read l; sleep 100"), after_configure("read l; sleep 100")}) {
    options_.stimulus_command = command;
    EXPECT_EQ(run(), kUnusable);
    EXPECT_THAT(out_, HasSubstr("did not answer in time (0.1 s; --patience)"));
    EXPECT_THAT(out_, HasSubstr(" of 2 traces were run"));
    EXPECT_THAT(out_, Not(HasSubstr("bringup_dut_first"))) << "not begun";
    EXPECT_THAT(err_, HasSubstr("the stimulus command hung before: what was not run is not known"));
  }
}

class LiveInterrupted : public Live, public testing::WithParamInterface<const char*> {};

TEST_P(LiveInterrupted, EndsWithItsSumsAndItsCommand) {
  options_.attempts = 1;
  options_.traces.push_back(kTraces / "bringup_dut_first");
  options_.stimulus_command = "sleep 100 & echo $! > " +
                              (testing::TempDir() + "/mtreplay_live_pid") + "; kill -" +
                              GetParam() + " $PPID; wait";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run(), kUnusable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_THAT(out_, HasSubstr("interrupted"));
  EXPECT_THAT(err_, HasSubstr("interrupted: what was not run is not known"));
  EXPECT_THAT(out_, HasSubstr("0 of 2 traces were run"));
  pid_t child = 0;
  std::ifstream(testing::TempDir() + "/mtreplay_live_pid") >> child;
  ASSERT_GT(child, 0);
  while (alive(child)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

INSTANTIATE_TEST_SUITE_P(Signals, LiveInterrupted, testing::Values("TERM", "INT", "HUP"));

// A daemon that the command leaves behind would keep the interface's socket.
TEST_F(Live, TheStimulusCommandDoesNotInheritTheInterface) {
  const auto file = std::filesystem::path(testing::TempDir()) / "mtreplay_live_fds";
  options_.stimulus_command =
      "readlink /proc/self/fd/* > " + file.string() + "; read l; echo '{\"ok\": false}'";
  EXPECT_EQ(run(), kUnusable);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::size_t sockets = 0;
  for (std::size_t at = text.find("socket:"); at != std::string::npos;
       at = text.find("socket:", at + 1)) {
    ++sockets;
  }
  // Standard input; standard output goes to the file.
  EXPECT_EQ(sockets, 1U) << text;
  std::filesystem::remove(file);
}

TEST_F(Live, TheStimulusCommandIsToldWhatToConfigure) {
  const auto file = std::filesystem::path(testing::TempDir()) / "mtreplay_live_told";
  options_.stimulus_command =
      "read -r line; printf '%s' \"$line\" > " + file.string() + "; echo '{\"ok\": false}'";
  options_.live.time_scale = 1000;
  expect_not_run("it does not say why");
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const json::value told = json::parse(text);
  EXPECT_EQ(told.at("do").as_string(), "configure");
  EXPECT_EQ(told.at("trace").as_string(), "bringup_peer_first");
  EXPECT_EQ(told.at("needs"), json::parse(R"(["counters", "enable"])"));
  EXPECT_EQ(told.at("time_scale").as_int64(), 1000);
  // The trace's 10 ms, a thousand times.
  EXPECT_EQ(told.at("dut").at("ports").at(0).at("timers").at("init_interval").as_int64(),
            10'000'000'000);
  std::filesystem::remove(file);
}

TEST_F(Live, ReportsSayThatItWasNotRun) {
  options_.report = ReportFormat::kTap;
  EXPECT_EQ(run(), kUnusable);
  EXPECT_THAT(out_, HasSubstr("ok 1 - bringup_peer_first # SKIP it needs counters, enable"));
  options_.report = ReportFormat::kJunit;
  EXPECT_EQ(run(), kUnusable);
  EXPECT_THAT(out_, HasSubstr("failures=\"0\" errors=\"0\" skipped=\"1\""));
  EXPECT_THAT(out_, HasSubstr("<skipped message=\"it needs counters, enable"));
  options_.report = ReportFormat::kJson;
  EXPECT_EQ(run(), kUnusable);
  const json::value report = json::parse(out_);
  EXPECT_EQ(report.at("not_run").as_int64(), 1);
  EXPECT_EQ(report.at("conform").as_int64(), 0);
  EXPECT_EQ(report.at("results").at(0).at("status").as_string(), "not_run");
  EXPECT_THAT(std::string(report.at("results").at(0).at("why").as_string()), HasSubstr("it needs"));
  EXPECT_FALSE(report.at("results").at(0).as_object().contains("live"));
}

TEST_F(Live, ATraceThatCannotBeReadIsNoSkip) {
  options_.traces.push_back("nosuch");
  EXPECT_EQ(run(), kUnusable);
  EXPECT_THAT(err_, HasSubstr("nosuch.json: No such file"));
  EXPECT_THAT(err_, Not(HasSubstr("no trace was run")));
}

}  // namespace
}  // namespace mtl::tools
