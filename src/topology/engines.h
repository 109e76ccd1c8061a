#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/routes.h"

/// What the engines share with routes.cc, and nobody else.
namespace mtl::topology {

/// The hops of every router for one column: what an engine fills in.
using HopSets = std::vector<Forwarding::Hops>;

/// One column, as an engine sees it.
struct Target {
  const std::vector<std::uint32_t>& roots;
  const std::uint8_t* distance;  ///< by router
};

/// A way to choose hops. Two kinds: one with an order of the routers chooses hops only, and leaves
/// the raises and the detours to order_raises() and add_detours(); one without does all of it.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Fills `hops`, which is empty for every router.
  virtual void choose(const Target& target, HopSets& hops) const = 0;
  /// Rank of each router, all different; hops to a lower one are "up". Empty: no order.
  const std::vector<std::uint32_t>& order() const { return order_; }

 protected:
  std::vector<std::uint32_t> order_;
};

/// The choosers, or why the fabric is not what the engine is for.
Result<std::unique_ptr<Chooser>> full_mesh(const Graph& graph, const Core& core);
Result<std::unique_ptr<Chooser>> ring(const Graph& graph, const Core& core);
Result<std::unique_ptr<Chooser>> levels(const Graph& graph, const Core& core);
Result<std::unique_ptr<Chooser>> grid(const Graph& graph, const Core& core);
Result<std::unique_ptr<Chooser>> dragonfly(const Graph& graph, const Core& core);
/// Shortest ways, in the order of a breadth-first search from the router with the most links.
std::unique_ptr<Chooser> shortest(const Graph& graph, const Core& core);

/// All links of each router that lead nearer to a root, as one tier.
void nearer(const Core& core, const Target& target, HopSets& hops);

/// Sets the raise of every hop: 1 where a hop goes up from a router that some hop goes down to. So
/// within a layer packets go up, then down, and never up again, whichever hops they take: no
/// circle.
void order_raises(const Core& core, const std::vector<std::uint32_t>& order, HopSets& hops);

/// Adds tiers that go round dead links: neighbours as near to the root as the router is, which
/// cannot send the packet back by their first tier; then such as are one hop farther and know
/// another way. `harmless`: only such as leave the raises of the first tiers as they are.
void add_detours(const Core& core, const Target& target, const std::vector<std::uint32_t>& order,
                 bool harmless, HopSets& hops);

/// Up to the nearest router that has a way only down to a root, and down it: needs no raise.
void up_and_down(const Core& core, const Target& target, const std::vector<std::uint32_t>& order,
                 HopSets& hops);

}  // namespace mtl::topology
