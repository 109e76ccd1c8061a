#include "switch/echo_book.h"

#include <gtest/gtest.h>

#include <vector>

namespace mtl::switchd {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Time at(Duration t) {
  return Time(t);
}

Event reply(EchoBook::Key key, std::uint16_t from, Time when) {
  Event event;
  event.kind = Event::Kind::kEchoReply;
  event.from = NodeId(from);
  event.id = key.id;
  event.number = key.number;
  event.at = when;
  return event;
}

Event error(EchoBook::Key key, std::uint16_t from, network::EchoType type) {
  Event event = reply(key, from, at(milliseconds(3)));
  event.kind = Event::Kind::kEchoError;
  event.echo = type;
  return event;
}

struct Outcomes {
  std::vector<EchoOutcome> list;
  EchoBook::Done note() {
    return [this](const EchoOutcome& outcome) { list.push_back(outcome); };
  }
};

TEST(EchoBook, N11_AReplyEndsItsRequestWithTheRoundTrip) {
  EchoBook book(100);
  Outcomes outcomes;
  const auto key = book.add(NodeId(7), 3, at(milliseconds(10)), outcomes.note());
  ASSERT_TRUE(key);
  EXPECT_EQ(key->number, 3);
  book.sent(*key, at(milliseconds(1)));
  book.answered(reply(*key, 7, at(milliseconds(1) + microseconds(250))));
  ASSERT_EQ(outcomes.list.size(), 1u);
  EXPECT_EQ(outcomes.list[0].kind, EchoOutcome::Kind::kReply);
  EXPECT_EQ(outcomes.list[0].from, NodeId(7));
  EXPECT_EQ(outcomes.list[0].round_trip, microseconds(250));
  EXPECT_EQ(book.waiting(), 0u);
}

TEST(EchoBook, N11_ErrorsSayWhoDroppedTheRequestAndWhy) {
  EchoBook book(0xFFFF);
  Outcomes outcomes;
  const auto first = book.add(NodeId(7), 1, at(milliseconds(10)), outcomes.note());
  const auto second = book.add(NodeId(7), 2, at(milliseconds(10)), outcomes.note());
  ASSERT_TRUE(first && second);
  book.answered(error(*second, 4, network::EchoType::kUnreachable));
  book.answered(error(*first, 3, network::EchoType::kHopLimitExceeded));
  ASSERT_EQ(outcomes.list.size(), 2u);
  EXPECT_EQ(outcomes.list[0].kind, EchoOutcome::Kind::kUnreachable);
  EXPECT_EQ(outcomes.list[0].from, NodeId(4));
  EXPECT_EQ(outcomes.list[1].kind, EchoOutcome::Kind::kHopLimitExceeded);
  EXPECT_EQ(outcomes.list[1].from, NodeId(3));
}

TEST(EchoBook, IgnoresWhatFitsNothing) {
  EchoBook book(5);
  Outcomes outcomes;
  const auto key = book.add(NodeId(7), 1, at(milliseconds(10)), outcomes.note());
  ASSERT_TRUE(key);
  book.answered(reply(*key, 8, at(milliseconds(2))));  // another node's
  book.answered(reply({key->id, 2}, 7, at(milliseconds(2))));
  book.answered(reply({static_cast<std::uint16_t>(key->id + 1), 1}, 7, at(milliseconds(2))));
  EXPECT_TRUE(outcomes.list.empty());
  book.answered(reply(*key, 7, at(milliseconds(2))));
  book.answered(reply(*key, 7, at(milliseconds(2))));  // a second one
  EXPECT_EQ(outcomes.list.size(), 1u);
}

TEST(EchoBook, EndsWhatIsOverdue) {
  EchoBook book(5);
  Outcomes outcomes;
  EXPECT_EQ(book.next_deadline(), kNever);
  book.add(NodeId(7), 1, at(milliseconds(20)), outcomes.note());
  book.add(NodeId(7), 2, at(milliseconds(10)), outcomes.note());
  EXPECT_EQ(book.next_deadline(), at(milliseconds(10)));
  book.expire(at(milliseconds(10)) - Duration(1));
  EXPECT_TRUE(outcomes.list.empty());
  book.expire(at(milliseconds(10)));
  ASSERT_EQ(outcomes.list.size(), 1u);
  EXPECT_EQ(outcomes.list[0].kind, EchoOutcome::Kind::kTimeout);
  EXPECT_EQ(book.next_deadline(), at(milliseconds(20)));
}

TEST(EchoBook, ForgetsWhatWasNotSentAndTakesNoMoreThanItsBound) {
  EchoBook book(0);
  Outcomes outcomes;
  std::vector<EchoBook::Key> keys;
  for (std::size_t i = 0; i < EchoBook::kMaxWaiting; ++i) {
    const auto key = book.add(NodeId(7), 1, at(milliseconds(10)), outcomes.note());
    ASSERT_TRUE(key);
    keys.push_back(*key);
  }
  EXPECT_FALSE(book.add(NodeId(7), 1, at(milliseconds(10)), outcomes.note()));
  book.forget(keys[0]);
  EXPECT_TRUE(book.add(NodeId(7), 1, at(milliseconds(10)), outcomes.note()));
  EXPECT_TRUE(outcomes.list.empty());
}

TEST(EchoBook, GivesNoIdTwiceWhileItWaits) {
  EchoBook book(0);
  Outcomes outcomes;
  const auto first = book.add(NodeId(7), 1, at(milliseconds(10)), outcomes.note());
  ASSERT_TRUE(first);
  for (int i = 0; i < 70'000; ++i) {
    const auto key = book.add(NodeId(8), 1, at(milliseconds(10)), outcomes.note());
    ASSERT_TRUE(key);
    ASSERT_NE(key->id, first->id);
    book.forget(*key);
  }
}

// What answers a request may ask the next one (trace).
TEST(EchoBook, ADoneMayAddTheNext) {
  EchoBook book(9);
  Outcomes outcomes;
  std::optional<EchoBook::Key> next;
  const auto key = book.add(NodeId(7), 1, at(milliseconds(10)), [&](const EchoOutcome&) {
    next = book.add(NodeId(7), 2, at(milliseconds(30)), outcomes.note());
  });
  ASSERT_TRUE(key);
  book.expire(at(milliseconds(10)));
  ASSERT_TRUE(next);
  book.answered(reply(*next, 7, at(milliseconds(12))));
  EXPECT_EQ(outcomes.list.size(), 1u);
}

}  // namespace
}  // namespace mtl::switchd
