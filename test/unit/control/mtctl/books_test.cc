#include "tools/mtctl/books.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sample_node.h"

namespace mtl::tools {
namespace {

using mtlink::control::NodeState;

/// What does not balance, as "place, about".
std::vector<std::string> wrong(const NodeState& node) {
  std::vector<std::string> names;
  for (const auto& book : books(node))
    if (book.difference() != 0) names.push_back(book.place + ", " + book.about);
  return names;
}

using Names = std::vector<std::string>;

TEST(Books, BalanceOfASoundNode) {
  EXPECT_EQ(Names{}, wrong(sample_node()));
  EXPECT_EQ(2u + 3 + 3 * 3, books(sample_node()).size());
}

TEST(Books, EachCounterOfAShardIsInItsBook) {
  using Shard = mtlink::control::ShardState;
  const std::pair<const char*, void (*)(Shard&)> changes[] = {
      {"made", [](Shard& s) { s.set_made(s.made() + 1); }},
      {"passed_in", [](Shard& s) { s.set_passed_in(s.passed_in() + 1); }},
      {"delivered", [](Shard& s) { s.set_delivered(s.delivered() + 1); }},
      {"passed_out", [](Shard& s) { s.set_passed_out(s.passed_out() + 1); }},
  };
  for (const auto& [what, change] : changes) {
    auto node = sample_node();
    change(*node.mutable_shards(0));
    EXPECT_EQ(Names{"shard 0, packets"}, wrong(node)) << what;
  }
}

TEST(Books, ADropWithoutAReasonShows) {
  auto node = sample_node();
  auto& shard = *node.mutable_shards(0);
  shard.set_dropped(shard.dropped() + 1);
  shard.set_accepted(shard.accepted() + 1);
  node.mutable_ports(0)->mutable_link()->set_packets_in(1001);
  node.mutable_ports(0)->mutable_link()->mutable_kinds(0)->set_in(1004);
  node.mutable_ports(0)->mutable_link()->set_frames_seen(1111);
  EXPECT_EQ(Names{"shard 0, drops"}, wrong(node));
}

// What a port had counted that is gone stands in the shards' counters still.
TEST(Books, RemovedPortsCount) {
  auto node = sample_node();
  auto& shard = *node.mutable_shards(0);
  shard.set_accepted(shard.accepted() + 5);
  shard.set_acked(shard.acked() + 5);
  EXPECT_EQ((Names{"node, packets in", "node, packets out"}), wrong(node));
  node.mutable_removed()->set_ports(1);
  node.mutable_removed()->set_packets_in(5);
  node.mutable_removed()->set_packets_acked(5);
  EXPECT_EQ(Names{}, wrong(node));
}

TEST(Books, LinksAndShardsMustTellTheSame) {
  auto node = sample_node();
  auto& shard = *node.mutable_shards(0);
  shard.set_accepted(shard.accepted() + 1);
  shard.set_held(shard.held() + 1);
  EXPECT_EQ((Names{"node, packets in", "node, packets here"}), wrong(node));
  node = sample_node();
  node.mutable_shards(0)->set_acked(1006);
  node.mutable_shards(0)->set_made(31);
  EXPECT_EQ(Names{"node, packets out"}, wrong(node));
}

TEST(Books, L3_EveryFrameSeenIsOfAKindOrDroppedBeforeIt) {
  for (const char* reason : {"foreign", "malformed", "bad_header_crc", "stale"}) {
    auto node = sample_node();
    node.mutable_ports(0)->mutable_link()->set_frames_seen(1111);
    EXPECT_EQ(Names{"port 0 (cable0), frames in"}, wrong(node));
    auto* drop = node.mutable_ports(0)->add_drops();
    drop->set_layer("link");
    drop->set_name(reason);
    drop->set_count(1);
    if (std::string(reason) == "bad_header_crc") {  // has an entry already
      node.mutable_ports(0)->mutable_drops()->RemoveLast();
      node.mutable_ports(0)->mutable_drops(0)->set_count(5);
    }
    EXPECT_EQ(Names{}, wrong(node)) << reason;
  }
}

TEST(Books, L16_BadAckMayBeOfDataOrNot) {
  auto node = sample_node();
  auto* drop = node.mutable_ports(0)->add_drops();
  drop->set_layer("link");
  drop->set_name("bad_ack");
  drop->set_count(1);
  EXPECT_EQ(Names{}, wrong(node));  // the frame was a STATUS
  node.mutable_ports(0)->mutable_link()->mutable_kinds(0)->set_in(1004);
  node.mutable_ports(0)->mutable_link()->set_frames_seen(1111);
  EXPECT_EQ(Names{}, wrong(node));  // the frame was a DATA
  node.mutable_ports(0)->mutable_link()->mutable_kinds(0)->set_in(1005);
  node.mutable_ports(0)->mutable_link()->set_frames_seen(1112);
  EXPECT_EQ(Names{"port 0 (cable0), DATA in"}, wrong(node));
}

TEST(Books, L12_APoisonedFrameMayBeHeld) {
  auto node = sample_node();
  auto& port = *node.mutable_ports(0);
  for (const char* reason : {"bad_packet_crc", "poisoned"}) {
    auto* drop = port.add_drops();
    drop->set_layer("link");
    drop->set_name(reason);
    drop->set_count(std::string(reason) == "poisoned" ? 1 : 3);
  }
  port.mutable_link()->mutable_kinds(0)->set_in(1006);  // it came three times
  port.mutable_link()->set_frames_seen(1113);
  EXPECT_EQ(Names{}, wrong(node));
  port.mutable_link()->set_held(2);  // and waits for its turn
  EXPECT_EQ(Names{}, wrong(node));
  port.mutable_link()->set_held(3);
  EXPECT_EQ(Names{"port 0 (cable0), DATA in"}, wrong(node));
}

TEST(Books, L9_PacketsHandedBackMayHaveBeenSentOrNot) {
  auto node = sample_node();
  auto& link = *node.mutable_ports(0)->mutable_link();
  link.set_packets_back(2);
  EXPECT_EQ(Names{}, wrong(node));
  link.mutable_kinds(0)->set_out(1032);
  EXPECT_EQ(Names{}, wrong(node));
  link.mutable_kinds(0)->set_out(1033);
  EXPECT_EQ(Names{"port 0 (cable0), DATA out"}, wrong(node));
}

TEST(Books, SayByHowMuchTheyDiffer) {
  const Book book{"shard 0", "packets", {{"accepted", 5}, {"made", 2}}, {{"acked", 4}}, {}};
  EXPECT_EQ(3, book.difference());
  EXPECT_EQ(
      "shard 0, packets: accepted 5 + made 2 = acked 4 (NOT BALANCED: the left is 3 too large)",
      describe(book));
  const Book small{"port 1", "DATA in", {{"DATA", 1}}, {{"packets_in", 3}}, {{"bad_ack", 9}}};
  EXPECT_EQ(-2, small.difference());
  EXPECT_EQ(
      "port 1, DATA in: DATA 1 = packets_in 3 + up to bad_ack 9 (NOT BALANCED: the left is 2 too "
      "small)",
      describe(small));
}

}  // namespace
}  // namespace mtl::tools
