#include "runtime/settings/link_timers.h"

#include <gtest/gtest.h>

#include <set>

namespace mtl::runtime {
namespace {

using namespace std::chrono_literals;
using Message = mtlink::config::Timers;

Message set_by_hand() {
  Message m;
  m.set_init_interval_us(1001);
  m.set_keepalive_interval_us(1002);
  m.set_dead_interval_us(3600000000);
  m.set_ack_every(16384);
  m.set_ack_delay_us(1);
  m.set_replay_timeout_us(1005);
  m.set_replay_limit(1000000);
  m.set_nack_interval_us(1006);
  m.set_hold_down_us(1007);
  m.set_adaptive(true);
  return m;
}

TEST(LinkTimers, EveryFieldHasItsTimer) {
  Message message = set_by_hand();
  message.set_profile(Message::FAST);
  const auto timers = link_timers(message);
  ASSERT_TRUE(timers) << timers.error().message;
  EXPECT_EQ(timers->init_interval, 1001us);
  EXPECT_EQ(timers->keepalive_interval, 1002us);
  EXPECT_EQ(timers->dead_interval, 1h);
  EXPECT_EQ(timers->ack_every, 16384);
  EXPECT_EQ(timers->ack_delay, 1us);
  EXPECT_EQ(timers->replay_timeout, 1005us);
  EXPECT_EQ(timers->replay_limit, 1000000u);
  EXPECT_EQ(timers->nack_interval, 1006us);
  EXPECT_EQ(timers->hold_down, 1007us);
  EXPECT_TRUE(timers->adaptive);
}

TEST(LinkTimers, AMessageTellsEveryFieldButTheProfile) {
  const Message told = timers_message(*link_timers(set_by_hand()));
  EXPECT_EQ(told.SerializeAsString(), set_by_hand().SerializeAsString());
  for (int i = 0; i < Message::descriptor()->field_count(); ++i) {
    const auto* field = Message::descriptor()->field(i);
    EXPECT_EQ(Message::GetReflection()->HasField(told, field), field->name() != "profile")
        << field->name();
  }
}

TEST(LinkTimers, WhatIsNotGivenIsTheProfiles) {
  EXPECT_EQ(link_timers(Message{})->dead_interval, 2s) << "lab unless it says fast";
  Message fast;
  fast.set_profile(Message::FAST);
  fast.set_ack_every(3);
  EXPECT_EQ(link_timers(fast)->dead_interval, 50ms);
  EXPECT_EQ(link_timers(fast)->ack_every, 3);
}

TEST(LinkTimers, WhatIsOutOfRangeIsNamedAndLeftOut) {
  Message m;
  m.set_dead_interval_us(3600000001);
  m.set_hold_down_us(0);
  m.set_ack_every(16385);
  m.set_replay_limit(1000001);
  m.set_nack_interval_us(7);
  link::Timers timers;
  std::set<std::string> fields;
  for (const TimerFault& fault : put_timers(m, timers)) {
    fields.insert(fault.field);
    EXPECT_EQ(fault.least, 1u);
  }
  EXPECT_EQ(fields, (std::set<std::string>{"dead_interval_us", "hold_down_us", "ack_every",
                                           "replay_limit"}));
  EXPECT_EQ(timers.dead_interval, 50ms);
  EXPECT_EQ(timers.hold_down, 100ms);
  EXPECT_EQ(timers.nack_interval, 7us) << "the others are taken";
  const auto refused = link_timers(m);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "timers.dead_interval_us is 3600000001; it must be 1..3600000000");
}

}  // namespace
}  // namespace mtl::runtime
