// The reference traces, byte for byte, with the node's ports on one shard and spread over two.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "conformance/replay.h"
#include "conformance/trace.h"

namespace mtl::conformance {
namespace {

const char* const kFolder = MTL_TRACES;

/// Names of the folder's traces; none when it cannot be read, which Folder.HoldsTraces then says.
std::vector<std::string> trace_names() {
  std::vector<std::string> names;
  if (const auto found = find_traces(kFolder)) {
    for (const auto& path : *found) names.push_back(path.stem().string());
  }
  return names;
}

TEST(Folder, HoldsTraces) {
  const auto found = find_traces(kFolder);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->empty());
}

class Replay : public testing::TestWithParam<std::tuple<std::string, std::size_t>> {};

TEST_P(Replay, ByteForByte) {
  const auto& [name, shards] = GetParam();
  const auto trace = load_trace(std::filesystem::path(kFolder) / (name + ".json"));
  ASSERT_TRUE(trace) << trace.error().message;
  const auto differences = replay(*trace, {shards});
  EXPECT_TRUE(differences.empty()) << report(*trace, differences);
}

INSTANTIATE_TEST_SUITE_P(Traces, Replay,
                         testing::Combine(testing::ValuesIn(trace_names()),
                                          testing::Values<std::size_t>(1, 2)),
                         [](const auto& param) {
                           const std::size_t shards = std::get<1>(param.param);
                           return std::get<0>(param.param) + "_" + std::to_string(shards) +
                                  (shards == 1 ? "shard" : "shards");
                         });

}  // namespace
}  // namespace mtl::conformance
