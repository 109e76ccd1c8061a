#include "switch/event_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mtl::switchd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

constexpr PortId kPort{0};

Plan one_port() {
  Plan plan;
  plan.ports.resize(1);
  plan.ports[0].name = "p0";
  return plan;
}

Event down(Time at) {
  Event event;
  event.at = at;
  event.port = kPort;
  event.before = link::State::kUp;
  event.state = link::State::kDown;
  event.reason = link::DownReason::kPeerClose;
  return event;
}

/// The lines of `text` that contain `what`, without their times.
std::vector<std::string> lines(const std::string& text, const std::string& what) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (const auto from = line.find(what); from != std::string::npos) {
      out.push_back(line.substr(from));
    }
    at = end + 1;
  }
  return out;
}

// As docs/mtswitchd.md says: ten at once, then one each ten seconds with the number left out.
TEST(EventLog, SaysHowManyLinesWereHeldBackHoweverOftenItIsAsked) {
  const Plan plan = one_port();
  Log log(LogStyle::kText, LogLevel::kInfo);
  EventLog events(plan, log);
  Time now{seconds(100)};
  CaptureStderr();
  for (int i = 0; i < 15; ++i) events.link(down(now));
  for (int i = 0; i < 9; ++i) events.flush(now += seconds(1));
  EXPECT_EQ(lines(GetCapturedStderr(), "link down").size(), 10U);
  CaptureStderr();
  events.flush(now + seconds(1));
  // Of the five that were held back the last is written.
  EXPECT_EQ(lines(GetCapturedStderr(), "link down"),
            std::vector<std::string>{"link down port=p0 number=0 reason=peer_close left_out=4"});
}

TEST(EventLog, SaysThatALinkChangesTooOftenToTell) {
  const Plan plan = one_port();
  Log log(LogStyle::kText, LogLevel::kInfo);
  EventLog events(plan, log);
  Time now{seconds(100)};
  CaptureStderr();
  events.untold(kPort, 300);
  events.flush(now);
  events.flush(now += seconds(1));  // nothing new
  for (int i = 1; i <= 30; ++i) {
    events.untold(kPort, 300 + 100 * static_cast<std::uint64_t>(i));
    events.flush(now += milliseconds(100));
  }
  const auto said = lines(GetCapturedStderr(), "link changes");
  ASSERT_EQ(said.size(), 10U) << "no more lines than of a port that is followed";
  const std::string what = "link changes too often to tell each; mtctl show links tells how it is";
  EXPECT_EQ(said[0], what + " port=p0 number=0 left_out=300");
  EXPECT_EQ(said[1], what + " port=p0 number=0 left_out=100");
}

// The number may be another port's by the time that the line would be due.
TEST(EventLog, WhatWasHeldBackOfAPortThatGoesIsToldUnderItsName) {
  Plan plan = one_port();
  Log log(LogStyle::kText, LogLevel::kInfo);
  EventLog events(plan, log);
  const Time now{seconds(100)};
  CaptureStderr();
  for (int i = 0; i < 12; ++i) events.link(down(now));
  EXPECT_EQ(lines(GetCapturedStderr(), "link down").size(), 10U);
  CaptureStderr();
  events.forget(kPort, 7);
  const std::string said = GetCapturedStderr();
  const auto last = lines(said, "link down");
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(lines(said, "link changes too often to tell each").size(), 1U);
  EXPECT_EQ(lines(said, "port=p0 number=0 left_out=7").size(), 1U);
  EXPECT_EQ(last[0], "link down port=p0 number=0 reason=peer_close left_out=1");
  plan.ports[0].name = "other";
  CaptureStderr();
  events.link(down(now + seconds(1)));
  events.untold(kPort, 7);
  events.flush(now + seconds(30));
  const auto next = lines(GetCapturedStderr(), "link down");
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0], "link down port=other number=0 reason=peer_close");
}

}  // namespace
}  // namespace mtl::switchd
