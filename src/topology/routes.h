#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "network/route_table.h"
#include "topology/forwarding.h"
#include "topology/graph.h"

namespace mtl::topology {

/// How routes are chosen. Each engine asks the links whether the fabric is what it is for.
enum class Engine : std::uint8_t {
  kAuto,       ///< the first of the others, in their order, that fits
  kFullMesh,   ///< straight, or by way of any third node; each hop raises
  kRing,       ///< the shorter way round; raise where the ring closes
  kLevels,     ///< trees and Clos: up to any common ancestor, down again
  kGrid,       ///< torus and mesh: falling coordinates first; raise where a ring closes
  kDragonfly,  ///< to a router with a link to the group, over it, to the router
  kGeneral,    ///< any graph: the shortest ways if four layers suffice for them, else up and down a
               ///< spanning order
};
std::string_view name(Engine engine);
/// The engine of that name; kAuto if there is none and it is not "auto".
Result<Engine> engine_of(std::string_view name);

/// The nodes that forward ("routers", by an index of their own) and the links between them.
struct Core {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  explicit Core(const Graph& graph);
  std::size_t size() const { return node.size(); }

  std::vector<std::uint32_t> node;    ///< by router: index in the graph
  std::vector<std::uint32_t> router;  ///< by node: its index here, or kNone
  std::vector<std::vector<Forwarding::Far>> links;
  std::vector<std::vector<std::uint32_t>> outs;  ///< by router and link: index among graph.outs()
};

/// The tables of a whole fabric. A destination's column says where its packets end but for the last
/// hop: at the routers that it hangs on, or, if it forwards itself, at it. Destinations that hang
/// on the same routers share one.
class Routes {
 public:
  static constexpr std::uint8_t kFar = 0xFF;  ///< no way

  /// Without tables yet: make_routes() fills them.
  explicit Routes(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}

  const Graph& graph() const { return *graph_; }
  const Core& core() const { return core_; }
  const Forwarding& tables() const { return tables_; }
  Engine engine() const { return engine_; }
  /// Why this engine and no other, and what it did: for people, a line each.
  const std::vector<std::string>& reasons() const { return reasons_; }

  /// Takes every raise away, to show what the layers are for: with what has a loop, not to be used.
  void lower() { tables_.lower(); }

  std::uint32_t column(std::size_t dst) const { return column_[dst]; }
  const std::vector<std::uint32_t>& roots(std::size_t column) const { return roots_[column]; }
  /// Links between a router and the nearest root of a column, at most 254; kFar: no way.
  std::uint8_t distance(std::size_t router, std::size_t column) const {
    return distance_[column * core_.size() + router];
  }
  /// Links on the shortest way between two nodes; kFar: none.
  std::uint32_t distance_between(std::size_t from, std::size_t dst) const;

  /// What mtswitchd and an endpoint at this node need: routes to every node that can be reached, in
  /// order of the node ids.
  std::vector<network::Route> of(std::size_t node) const;
  /// The route of one node to another; without tiers if there is no way.
  network::Route route(std::size_t node, std::size_t dst) const;

 private:
  friend class Router;
  network::Route from_endpoint(std::size_t node, std::size_t dst) const;
  network::Route from_router(std::size_t node, std::size_t dst) const;

  std::shared_ptr<const Graph> graph_;
  Core core_{*graph_};
  Engine engine_ = Engine::kGeneral;
  std::vector<std::string> reasons_;
  std::vector<std::uint32_t> column_;              ///< by node
  std::vector<std::vector<std::uint32_t>> roots_;  ///< by column, routers ascending
  std::vector<std::uint8_t> distance_;             ///< by column, then router
  Forwarding tables_;
};

/// Routes for the whole fabric, by the engine that fits or the one asked for, so that:
/// every endpoint reaches every other by the first tiers alone, never lacking a layer (N7); later
/// tiers go round what failed, as far as layers are left; the whole is free of deadlock (N10),
/// which is for find_cycle() to prove. Errors: the engine does not fit, and why; two endpoints
/// without a way; a tier or a table beyond what a node holds; layers that do not suffice, and for
/// what.
Result<Routes> make_routes(std::shared_ptr<const Graph> graph, Engine engine = Engine::kAuto);

}  // namespace mtl::topology
