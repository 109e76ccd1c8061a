#include "sim/scenario.h"

#include <gtest/gtest.h>

namespace mtl::sim {
namespace {

bool finds(ScenarioOptions::Defect defect, std::string_view check) {
  ScenarioOptions options;
  options.faults = false;
  options.defect = defect;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    EventLog off;
    const RunResult result = run_scenario(Kind::kPair, seed, off, options);
    if (!result.violations.any() || result.violations.list()[0].check != check) return false;
  }
  return true;
}

TEST(Scenario, FindsAWireThatForgesPackets) {
  EXPECT_TRUE(finds(ScenarioOptions::Defect::kForge, "altered"));
}

TEST(Scenario, FindsAFabricThatForgetsToRelease) {
  EXPECT_TRUE(finds(ScenarioOptions::Defect::kLeak, "stall"));
}

TEST(Scenario, TheSameSeedIsTheSameRun) {
  for (std::uint8_t k = 0; k < static_cast<std::uint8_t>(Kind::kCount); ++k) {
    EventLog first(10);
    EventLog second(10);
    EventLog other(10);
    run_scenario(static_cast<Kind>(k), 11, first);
    run_scenario(static_cast<Kind>(k), 11, second);
    run_scenario(static_cast<Kind>(k), 12, other);
    EXPECT_GT(first.count(), 100u);
    EXPECT_EQ(first.count(), second.count());
    EXPECT_EQ(first.digest(), second.digest());
    EXPECT_NE(first.digest(), other.digest());
  }
}

TEST(Scenario, TheLogChangesNothing) {
  EventLog off;
  EventLog on(10);
  const RunResult without = run_scenario(Kind::kRing, 5, off);
  const RunResult with = run_scenario(Kind::kRing, 5, on);
  EXPECT_EQ(without.summary.list(), with.summary.list());
}

}  // namespace
}  // namespace mtl::sim
