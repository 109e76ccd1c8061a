#include "tools/mtperf/verdict.h"

#include <gmock/gmock.h>

namespace mtl::mtperf {
namespace {

using mtlink::perf::DatagramReport;
using mtlink::perf::PeerReport;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A run of node 101 with node 102: ten datagrams of 5000 bytes each way.
struct Ended {
  DatagramReport report;
  PeerReport& peer;
  Ended() : peer(*report.add_peers()) {
    report.set_node(101);
    peer.set_node(102);
    peer.set_sent(10);
    peer.set_sent_bytes(50'000);
    peer.set_finished(true);
    peer.set_delivered(10);
    peer.set_received(10);
  }
  void refused(std::uint64_t count, std::uint32_t by, const char* reason) {
    peer.set_delivered(10 - count);
    peer.set_refused(count);
    peer.set_refused_by(by);
    peer.set_refused_reason(reason);
  }
};

TEST(Verdict, NothingToComplainOf) {
  Ended run;
  EXPECT_THAT(complaints(run.report), IsEmpty());
}

TEST(Verdict, SomeRefusedUnderANameAreNoComplaint) {
  Ended run;
  run.refused(4, 1, "no_route");
  run.peer.set_received(3);
  EXPECT_THAT(complaints(run.report), IsEmpty());
}

TEST(Verdict, OtherContentIsOneFaultAndNotALossBesides) {
  Ended run;
  run.peer.set_delivered(0);
  run.peer.set_received(0);
  run.peer.set_lost(10);
  run.peer.set_altered(10);
  EXPECT_THAT(complaints(run.report),
              ElementsAre(AllOf(HasSubstr("10 datagrams of node 102"), HasSubstr("--seed"))));
  run.peer.set_lost(13);
  EXPECT_THAT(complaints(run.report),
              ElementsAre(HasSubstr("3 datagrams of node 102 were lost"), HasSubstr("--seed")));
}

TEST(Verdict, AllTooLongForThePathIsNotOkAndSaysSo) {
  Ended run;
  run.refused(10, 1, "no_route");
  run.peer.set_received(0);
  // 5000 bytes of payload, header 12 and CRC 4.
  EXPECT_THAT(complaints(run.report),
              ElementsAre(AllOf(HasSubstr("none of the 10 datagrams to node 102"),
                                HasSubstr("by node 1 (no_route)"), HasSubstr("5016 bytes"),
                                HasSubstr("MTU"), HasSubstr("--size")),
                          HasSubstr("nothing was received")));
}

TEST(Verdict, WhatDidNotArriveForAnotherReasonIsNotBlamedOnItsSize) {
  for (const auto& [by, reason] : {std::pair{1u, "hop_limit_exceeded"}, {101u, "no_route"}}) {
    Ended run;
    run.refused(10, by, reason);
    EXPECT_THAT(complaints(run.report),
                ElementsAre(AllOf(HasSubstr(reason), Not(HasSubstr("MTU")))));
  }
}

TEST(Verdict, LostWithoutANameTellsWhereToLook) {
  Ended run;
  run.peer.set_lost(3);
  EXPECT_THAT(complaints(run.report),
              ElementsAre(AllOf(HasSubstr("3 datagrams of node 102"), HasSubstr("without a name"),
                                HasSubstr("mtctl show drops"), HasSubstr("1,000"))));
}

TEST(Verdict, AlteredAsksForTheSameOptions) {
  Ended run;
  run.peer.set_altered(2);
  EXPECT_THAT(complaints(run.report),
              ElementsAre(AllOf(HasSubstr("2 datagrams of node 102"), HasSubstr("--seed"))));
}

TEST(Verdict, OfAPeerThatDidNotFinishOnlyWhatIsKnown) {
  Ended run;
  run.peer.set_finished(false);
  run.peer.set_delivered(0);
  run.peer.set_received(0);
  EXPECT_THAT(complaints(run.report), IsEmpty());
}

}  // namespace
}  // namespace mtl::mtperf
