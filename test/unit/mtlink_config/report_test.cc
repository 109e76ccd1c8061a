// What mtlink-config says of a fabric that it refuses.
#include "tools/mtlink-config/report.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/ids.h"
#include "topology/shapes.h"

namespace mtl::tools {
namespace {

TEST(DescribeCycle, N10_NamesHopsAndDestinations) {
  topology::Wanted wanted;
  wanted.topology = "ring";
  wanted.gpu_count = 4;
  auto built = topology::Graph::build(*topology::generate(wanted));
  const auto graph =
      std::make_shared<const topology::Graph>(std::get<topology::Graph>(std::move(built)));
  const auto routes = topology::make_routes(graph);
  ASSERT_TRUE(routes);
  // gpu i has its port 0 to the next (gpu0 to gpu1), but that of gpu3 closes the ring as its
  // second.
  const auto channel = [&](std::size_t router, std::size_t link, std::size_t layer) {
    return (routes->tables().first_link(router) + link) * kLayers + layer;
  };
  const topology::Cycle cycle{{channel(0, 0, 0), channel(1, 1, 2)}, {{2}, {0, 3}}};
  EXPECT_EQ(describe_cycle(*routes, cycle),
            "gpu0 port 0 -> gpu1 port 0, layer 0: packets for gpu2 wait for\n"
            "gpu1 port 1 -> gpu2 port 0, layer 2: packets for gpu0, gpu3 wait for the first\n");
}

}  // namespace
}  // namespace mtl::tools
