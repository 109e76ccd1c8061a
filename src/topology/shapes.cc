#include "topology/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>

#include "base/ids.h"
#include "topology/fabric_builder.h"
#include "topology/graph.h"
#include "topology/presets.h"

namespace mtl::topology {

namespace pb = mtlink::topology;

namespace {

using Node = FabricBuilder::Node;

constexpr std::uint64_t kLane = 200'000'000'000;
constexpr std::uint64_t kBandwidth = 1'600'000'000'000;
constexpr std::uint64_t kMostDigits = 1'000'000'000'000'000;

/// Numbers that all families share, worked out.
struct Numbers {
  std::uint32_t gpus = 0;
  std::uint64_t bandwidth = 0;
  std::uint64_t lane = 0;
  std::uint32_t lanes = 0;  ///< of an accelerator
};

Result<Numbers> numbers(const Wanted& wanted, std::uint32_t gpus) {
  Numbers n{wanted.gpu_count.value_or(gpus), wanted.bandwidth.value_or(kBandwidth),
            wanted.lane.value_or(kLane), 0};
  if (n.gpus == 0) return Error{"--gpu-count is missing; say how many accelerators"};
  if (n.gpus > kMaxNode) {
    return Error{fmt::format("--gpu-count is {}, but node ids end at {} (N3)", n.gpus, kMaxNode)};
  }
  if (n.lane == 0 || n.bandwidth < n.lane || n.bandwidth % n.lane != 0) {
    const std::uint64_t below = n.lane == 0 ? 0 : n.bandwidth / n.lane * n.lane;
    return Error{
        fmt::format("--bandwidth {} is no multiple of a lane of {} (--lane): take {} or {}",
                    rate_text(n.bandwidth), rate_text(n.lane), rate_text(std::max(below, n.lane)),
                    rate_text(below + n.lane))};
  }
  const std::uint64_t lanes = n.bandwidth / n.lane;
  if (lanes > 4096) {
    return Error{fmt::format("--bandwidth {} makes {} lanes of {}; at most 4096",
                             rate_text(n.bandwidth), lanes, rate_text(n.lane))};
  }
  n.lanes = static_cast<std::uint32_t>(lanes);
  return n;
}

/// Whether the links are few enough to be made; `sum` is how many they are, worked out.
Result<void> few_enough(std::uint64_t links, const std::string& sum) {
  if (links <= kMaxLinks) return {};
  return Error{
      fmt::format("{} = {} links, {} - {} = {} more than a fabric may have; take a smaller "
                  "one",
                  sum, links, links, kMaxLinks, links - kMaxLinks)};
}

void begin(FabricBuilder& out, const Wanted& wanted, const std::string& family, const Numbers& n) {
  pb::Topology& topology = out.topology();
  topology.set_name(wanted.name.empty() ? fmt::format("{}-{}", family, n.gpus) : wanted.name);
  topology.mutable_origin()->set_family(family);
  out.parameter("gpu_count", fmt::format("{}", n.gpus));
  out.parameter("bandwidth", rate_text(n.bandwidth));
  out.parameter("lane", rate_text(n.lane));
  out.show(fmt::format("an accelerator: {} each way / {} a lane = {} lanes", rate_text(n.bandwidth),
                       rate_text(n.lane), n.lanes));
}

/// Lanes of each of `links` links of an accelerator, or why they do not suffice.
Result<std::uint32_t> share(FabricBuilder& out, const Numbers& n, std::uint32_t links,
                            const std::string& what) {
  const std::uint32_t each = n.lanes / links;
  if (each == 0) {
    return Error{fmt::format(
        "{} lanes do not reach {} ({} links): {} - {} = {} short; raise --bandwidth to {} x {} = "
        "{}, or lower --lane",
        n.lanes, what, links, links, n.lanes, links - n.lanes, links, rate_text(n.lane),
        rate_text(links * n.lane))};
  }
  if (each > 64) {
    return Error{fmt::format("{} lanes over {} links would bundle {} lanes a link; at most 64",
                             n.lanes, links, each)};
  }
  out.show(
      fmt::format("{} lanes / {} links ({}) = {} each, {} x {} = {} a link; {} x {} = {} used, "
                  "{} free",
                  n.lanes, links, what, each, each, rate_text(n.lane), rate_text(each * n.lane),
                  links, each, links * each, n.lanes - links * each));
  return each;
}

std::vector<Node> accelerators(FabricBuilder& out, const Numbers& n, bool transit) {
  std::vector<Node> gpus;
  for (std::uint32_t i = 0; i < n.gpus; ++i) {
    gpus.push_back(out.endpoint(fmt::format("gpu{}", i), transit));
    out.lanes(gpus.back(), n.lanes);
  }
  return gpus;
}

Result<pb::Topology> mesh(const Wanted& wanted, const std::string& family) {
  const bool fc8 = family == "fc8";
  auto n = numbers(wanted, fc8 ? 8 : 0);
  if (!n) return n.error();
  if (fc8 && n->gpus != 8) {
    return Error{
        fmt::format("--gpu-count is {}, but FC8 is eight accelerators, each joined to each; "
                    "take 8, or --topology mesh",
                    n->gpus)};
  }
  if (n->gpus < 2) return Error{"--gpu-count is 1; a mesh has at least 2"};
  const std::uint64_t links = std::uint64_t{n->gpus} * (n->gpus - 1) / 2;
  if (auto ok = few_enough(links, fmt::format("{} x {} / 2", n->gpus, n->gpus - 1)); !ok) {
    return ok.error();
  }
  FabricBuilder out;
  begin(out, wanted, "mesh", *n);
  if (fc8) out.topology().mutable_origin()->set_preset("fc8");
  if (fc8 && wanted.name.empty()) out.topology().set_name("fc8");
  const auto each = share(out, *n, n->gpus - 1, "one to each other accelerator");
  if (!each) return each.error();
  const auto gpus = accelerators(out, *n, true);
  for (std::uint32_t i = 0; i < n->gpus; ++i) {
    for (std::uint32_t j = i + 1; j < n->gpus; ++j) out.join(gpus[i], gpus[j], *each, n->lane);
  }
  out.show(fmt::format("links: {} x {} / 2 = {}", n->gpus, n->gpus - 1, links));
  return std::move(out.topology());
}

Result<pb::Topology> ring(const Wanted& wanted, const std::string& family) {
  const std::uint32_t rings = family == "ring" ? 1 : 2;
  auto n = numbers(wanted, 0);
  if (!n) return n.error();
  if (n->gpus < 3) return Error{fmt::format("--gpu-count is {}; a ring has at least 3", n->gpus)};
  FabricBuilder out;
  begin(out, wanted, family, *n);
  const auto each =
      share(out, *n, 2 * rings, fmt::format("{} to each neighbour in the ring", rings));
  if (!each) return each.error();
  const auto gpus = accelerators(out, *n, true);
  for (std::uint32_t r = 0; r < rings; ++r) {
    for (std::uint32_t i = 0; i < n->gpus; ++i) {
      out.join(gpus[i], gpus[(i + 1) % n->gpus], *each, n->lane);
    }
  }
  return std::move(out.topology());
}

Result<pb::Topology> flat(const Wanted& wanted, const std::string& family) {
  const std::uint32_t planes = wanted.planes.value_or(1);
  auto n = numbers(wanted, 0);
  if (!n) return n.error();
  if (planes == 0 || planes > 1024) {
    return Error{fmt::format("--planes is {}; it must be 1..1024", planes)};
  }
  const std::uint32_t radix = wanted.radix.value_or(n->gpus);
  if (radix < n->gpus) {
    return Error{
        fmt::format("--radix is {}, but each plane's switch has a port for each of {} "
                    "accelerators: {} - {} = {} too few; take a larger radix, or a clos",
                    radix, n->gpus, n->gpus, radix, n->gpus - radix)};
  }
  if (n->gpus > kMaxPorts) {
    return Error{
        fmt::format("--gpu-count is {}, but each plane's switch has a port for each accelerator, "
                    "and no node has more than {}: {} - {} = {} too many; take a clos",
                    n->gpus, kMaxPorts, n->gpus, kMaxPorts, n->gpus - kMaxPorts)};
  }
  if (auto ok = few_enough(std::uint64_t{n->gpus} * planes,
                           fmt::format("{} accelerators x {} planes", n->gpus, planes));
      !ok) {
    return ok.error();
  }
  FabricBuilder out;
  begin(out, wanted, family, *n);
  const auto each = share(out, *n, planes, "one to each plane");
  if (!each) return each.error();
  const auto gpus = accelerators(out, *n, false);
  for (std::uint32_t p = 0; p < planes; ++p) {
    const Node plane = out.switch_node(fmt::format("plane{}", p), 1, radix);
    for (const Node gpu : gpus) out.join(gpu, plane, *each, n->lane);
  }
  out.show(fmt::format("a plane's switch: {} of {} ports used", n->gpus, radix));
  return std::move(out.topology());
}

Result<pb::Topology> tree(const Wanted& wanted, const std::string& family) {
  auto n = numbers(wanted, 0);
  if (!n) return n.error();
  const std::uint32_t radix = wanted.radix.value_or(64);
  if (radix < 3) return Error{fmt::format("--radix is {}; a tree's switch has at least 3", radix)};
  FabricBuilder out;
  begin(out, wanted, family, *n);
  const auto each = share(out, *n, 1, "to its switch");
  if (!each) return each.error();
  std::vector<Node> below = accelerators(out, *n, false);
  for (std::uint32_t level = 1; below.size() > 1 || level == 1; ++level) {
    // The last switch needs no port up.
    const std::size_t down = below.size() <= radix ? radix : radix - 1;
    const std::size_t switches = (below.size() + down - 1) / down;
    std::vector<Node> above;
    for (std::size_t i = 0; i < switches; ++i) {
      above.push_back(out.switch_node(fmt::format("level{}-{}", level, i), level, radix));
    }
    for (std::size_t i = 0; i < below.size(); ++i) {
      out.join(below[i], above[i * switches / below.size()], *each, n->lane);
    }
    out.show(fmt::format("level {}: {} nodes below / {} ports down = {} switches", level,
                         below.size(), down, switches));
    below = above;
  }
  return std::move(out.topology());
}

/// Ports of a Clos's leaf, and how many leaves.
struct Leaves {
  std::uint32_t down = 0;
  std::uint32_t up = 0;
  std::uint32_t count = 0;
};

/// The radix of a switch, as given or 64.
Result<std::uint32_t> radix_of(const Wanted& wanted) {
  const std::uint32_t radix = wanted.radix.value_or(64);
  if (radix >= 2 && radix <= kMaxPorts) return radix;
  return Error{fmt::format("--radix is {}; a switch has 2..{} ports", radix, kMaxPorts)};
}

Result<Leaves> leaves(FabricBuilder& out, const Numbers& n, std::uint32_t radix,
                      std::uint32_t over) {
  if (over == 0 || over >= kMaxPorts) {
    return Error{
        fmt::format("--oversubscription is {}; it must be 1..{}: a leaf of {} ports, the most, has "
                    "one of them up at least",
                    over, kMaxPorts - 1, kMaxPorts)};
  }
  const std::uint32_t step = over + 1;
  if (radix % step != 0) {
    return Error{fmt::format(
        "--radix {} does not divide into {} ports down for each port up: {} / ({} + 1) = {} rest "
        "{}; "
        "take {}",
        radix, over, radix, over, radix / step, radix % step, (radix / step + 1) * step)};
  }
  Leaves leaf{radix / (over + 1) * over, radix / (over + 1), 0};
  if (n.gpus % leaf.down != 0) {
    const std::uint32_t full = n.gpus / leaf.down;
    return Error{fmt::format(
        "--gpu-count {} does not fill leaves of {} ports down (radix {}, {}:1): {} leaves hold {}, "
        "{} hold {}; take one of these, or another radix",
        n.gpus, leaf.down, radix, over, full, full * leaf.down, full + 1, (full + 1) * leaf.down)};
  }
  leaf.count = n.gpus / leaf.down;
  out.show(fmt::format("a leaf: {} ports = {} down + {} up ({}:1); {} / {} = {} leaves", radix,
                       leaf.down, leaf.up, over, n.gpus, leaf.down, leaf.count));
  return leaf;
}

/// The fewest switches above that take `up` links from each of `below` switches evenly.
Result<std::uint32_t> above(std::uint32_t up, std::uint32_t below, std::uint32_t radix,
                            const std::string& what) {
  for (std::uint32_t count = 1; count <= up; ++count) {
    if (up % count == 0 && std::uint64_t{below} * (up / count) <= radix) return count;
  }
  return Error{
      fmt::format("{} {} need a port each at every switch above, which has {}: {} - {} = {} "
                  "too many; take more levels, or a larger radix",
                  below, what, radix, below, radix, below - radix)};
}

Result<pb::Topology> clos2(FabricBuilder& out, const Numbers& n, const Leaves& leaf,
                           std::uint32_t radix, std::uint32_t lanes) {
  const auto spines = above(leaf.up, leaf.count, radix, "leaves");
  if (!spines) return spines.error();
  const std::uint32_t parallel = leaf.up / *spines;
  out.show(
      fmt::format("spines: {} ports up / {} parallel links = {}; {} leaves x {} = {} of {} "
                  "ports used",
                  leaf.up, parallel, *spines, leaf.count, parallel, leaf.count * parallel, radix));
  const auto gpus = accelerators(out, n, false);
  std::vector<Node> low, high;
  for (std::uint32_t i = 0; i < leaf.count; ++i) {
    low.push_back(out.switch_node(fmt::format("leaf{}", i), 1, radix));
  }
  for (std::uint32_t i = 0; i < *spines; ++i) {
    high.push_back(out.switch_node(fmt::format("spine{}", i), 2, radix));
  }
  for (std::uint32_t i = 0; i < n.gpus; ++i) out.join(gpus[i], low[i / leaf.down], lanes, n.lane);
  for (const Node l : low) {
    for (const Node s : high) {
      for (std::uint32_t p = 0; p < parallel; ++p) out.join(l, s, lanes, n.lane);
    }
  }
  return std::move(out.topology());
}

Result<pb::Topology> clos3(FabricBuilder& out, const Numbers& n, const Leaves& leaf,
                           std::uint32_t radix, std::uint32_t lanes) {
  const std::uint32_t half = radix / 2;
  const std::uint32_t pods = (leaf.count + half - 1) / half;
  if (leaf.count % pods != 0) {
    return Error{
        fmt::format("{} leaves do not divide into pods of at most {} ({} / 2 ports down of a "
                    "middle switch): {} pods leave a rest of {}; take a --gpu-count of {} x "
                    "{} x k",
                    leaf.count, half, radix, pods, leaf.count % pods, leaf.down, pods)};
  }
  const std::uint32_t in_pod = leaf.count / pods;
  const auto tops = above(half, pods, radix, "pods");
  if (!tops) return tops.error();
  const std::uint32_t parallel = half / *tops;
  out.show(
      fmt::format("pods: {} leaves / {} = {}; each with {} middle switches, one for each port "
                  "up of a leaf",
                  leaf.count, in_pod, pods, leaf.up));
  out.show(
      fmt::format("top: {} groups x {} switches, {} parallel links; {} pods x {} = {} of {} "
                  "ports used",
                  leaf.up, *tops, parallel, pods, parallel, pods * parallel, radix));
  const auto gpus = accelerators(out, n, false);
  std::vector<Node> low, middle, top;
  for (std::uint32_t i = 0; i < leaf.count; ++i) {
    low.push_back(out.switch_node(fmt::format("leaf{}", i), 1, radix));
  }
  for (std::uint32_t i = 0; i < pods * leaf.up; ++i) {
    middle.push_back(
        out.switch_node(fmt::format("middle{}-{}", i / leaf.up, i % leaf.up), 2, radix));
  }
  for (std::uint32_t i = 0; i < leaf.up * *tops; ++i) {
    top.push_back(out.switch_node(fmt::format("top{}-{}", i / *tops, i % *tops), 3, radix));
  }
  for (std::uint32_t i = 0; i < n.gpus; ++i) out.join(gpus[i], low[i / leaf.down], lanes, n.lane);
  for (std::uint32_t l = 0; l < leaf.count; ++l) {
    for (std::uint32_t m = 0; m < leaf.up; ++m) {
      out.join(low[l], middle[l / in_pod * leaf.up + m], lanes, n.lane);
    }
  }
  for (std::uint32_t m = 0; m < middle.size(); ++m) {
    for (std::uint32_t t = 0; t < *tops; ++t) {
      for (std::uint32_t p = 0; p < parallel; ++p) {
        out.join(middle[m], top[m % leaf.up * *tops + t], lanes, n.lane);
      }
    }
  }
  return std::move(out.topology());
}

Result<pb::Topology> clos(const Wanted& wanted, const std::string& family) {
  auto n = numbers(wanted, 0);
  if (!n) return n.error();
  const auto radix = radix_of(wanted);
  if (!radix) return radix.error();
  const std::uint32_t levels = wanted.levels.value_or(family == "clos" ? 2 : 3);
  if (levels != 2 && levels != 3) {
    return Error{fmt::format("--levels is {}; a {} has 2 or 3", levels, family)};
  }
  FabricBuilder out;
  begin(out, wanted, family, *n);
  out.parameter("radix", fmt::format("{}", *radix));
  out.parameter("levels", fmt::format("{}", levels));
  const auto lanes = share(out, *n, 1, "to its leaf");
  if (!lanes) return lanes.error();
  const auto leaf = leaves(out, *n, *radix, wanted.oversubscription.value_or(1));
  if (!leaf) return leaf.error();
  return levels == 2 ? clos2(out, *n, *leaf, *radix, *lanes)
                     : clos3(out, *n, *leaf, *radix, *lanes);
}

/// Each accelerator of a host on a leaf of its own rail; spines join the rails.
Result<pb::Topology> rail(const Wanted& wanted, const std::string& family) {
  auto n = numbers(wanted, 0);
  if (!n) return n.error();
  const std::uint32_t rails = wanted.rails.value_or(8);
  const auto ports = radix_of(wanted);
  if (!ports) return ports.error();
  const std::uint32_t radix = *ports;
  if (rails == 0 || n->gpus % rails != 0) {
    return Error{
        fmt::format("--gpu-count {} does not divide into hosts of {} (--rails)", n->gpus, rails)};
  }
  const std::uint32_t hosts = n->gpus / rails;
  if (radix % 2 != 0 || hosts % std::min(hosts, radix / 2) != 0) {
    return Error{
        fmt::format("{} hosts do not fill leaves of {} / 2 = {} ports down; take a "
                    "--gpu-count of {} x {} x k",
                    hosts, radix, radix / 2, rails, radix / 2)};
  }
  const std::uint32_t down = std::min(hosts, radix / 2);
  const Leaves leaf{down, down, hosts / down * rails};
  FabricBuilder out;
  begin(out, wanted, family, *n);
  const auto lanes = share(out, *n, 1, "to its rail's leaf");
  if (!lanes) return lanes.error();
  const auto spines = above(leaf.up, leaf.count, radix, "leaves");
  if (!spines) return spines.error();
  const std::uint32_t parallel = leaf.up / *spines;
  out.show(
      fmt::format("hosts: {} / {} = {}; leaves: {} hosts / {} ports down x {} rails = {}; "
                  "spines: {}",
                  n->gpus, rails, hosts, hosts, down, rails, leaf.count, *spines));
  const auto gpus = accelerators(out, *n, false);
  std::vector<Node> low, high;
  for (std::uint32_t i = 0; i < leaf.count; ++i) {
    low.push_back(out.switch_node(fmt::format("rail{}-leaf{}", i % rails, i / rails), 1, radix));
  }
  for (std::uint32_t i = 0; i < *spines; ++i) {
    high.push_back(out.switch_node(fmt::format("spine{}", i), 2, radix));
  }
  for (std::uint32_t i = 0; i < n->gpus; ++i) {
    out.join(gpus[i], low[i / rails / down * rails + i % rails], *lanes, n->lane);
  }
  for (const Node l : low) {
    for (const Node s : high) {
      for (std::uint32_t p = 0; p < parallel; ++p) out.join(l, s, *lanes, n->lane);
    }
  }
  for (std::uint32_t h = 0; h < hosts; ++h) {
    std::vector<Node> host;
    for (std::uint32_t r = 0; r < rails; ++r) host.push_back(gpus[h * rails + r]);
    out.group(fmt::format("host{}", h), host);
  }
  return std::move(out.topology());
}

std::uint32_t root_of(std::uint32_t count, std::uint32_t dimensions) {
  for (std::uint32_t side = 1; side <= count; ++side) {
    std::uint64_t product = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) product *= side;
    if (product == count) return side;
    if (product > count) break;
  }
  return 0;
}

Result<std::vector<std::uint32_t>> grid_size(const Wanted& wanted) {
  std::vector<std::uint32_t> size = wanted.size;
  if (size.empty() && wanted.gpu_count) {
    for (const std::uint32_t dimensions : {3U, 2U}) {
      if (const std::uint32_t side = root_of(*wanted.gpu_count, dimensions); side > 1) {
        return std::vector<std::uint32_t>(dimensions, side);
      }
    }
    return Error{
        fmt::format("--gpu-count {} is neither a cube nor a square; give --size, as in "
                    "4x4x8",
                    *wanted.gpu_count)};
  }
  if (size.empty()) return Error{"--size is missing; give it as in 4x4x4"};
  std::uint64_t product = 1;
  for (const std::uint32_t side : size) {
    if (side < 2) return Error{"--size has a side of less than 2; leave that dimension out"};
    product = std::min<std::uint64_t>(product * side, 1U << 30);
  }
  if (product > kMaxNode) {
    return Error{fmt::format("--size {} has more places than there are node ids: {} (N3)",
                             fmt::join(size, "x"), kMaxNode)};
  }
  if (wanted.gpu_count && *wanted.gpu_count != product) {
    return Error{fmt::format("--gpu-count is {}, but {} = {}; give one of them, or both alike",
                             *wanted.gpu_count, fmt::join(size, " x "), product)};
  }
  return size;
}

/// Lanes of an accelerator over the links along all dimensions.
std::uint32_t grid_links(const std::vector<std::uint32_t>& size, bool closed) {
  std::uint32_t links = 0;
  for (const std::uint32_t side : size) links += closed && side == 2 ? 1 : 2;
  return links;
}

Result<pb::Topology> torus(const Wanted& wanted, const std::string& family) {
  const bool closed = family == "torus";
  auto size = grid_size(wanted);
  if (!size) return size.error();
  Wanted counted = wanted;
  counted.gpu_count = std::accumulate(size->begin(), size->end(), 1U, std::multiplies<>());
  auto n = numbers(counted, 0);
  if (!n) return n.error();
  FabricBuilder out;
  begin(out, counted, family, *n);
  out.parameter("size", fmt::format("{}", fmt::join(*size, "x")));
  out.show(fmt::format("{} = {} accelerators", fmt::join(*size, " x "), n->gpus));
  const auto each = share(out, *n, grid_links(*size, closed), "two along each dimension");
  if (!each) return each.error();
  const auto gpus = accelerators(out, *n, true);
  for (std::uint32_t i = 0; i < n->gpus; ++i) {
    std::vector<std::uint32_t> at;
    for (std::uint32_t rest = i, d = 0; d < size->size(); ++d) {
      at.push_back(rest % (*size)[d]);
      rest /= (*size)[d];
    }
    out.place(gpus[i], at);
  }
  for (std::uint32_t i = 0; i < n->gpus; ++i) {
    for (std::uint32_t d = 0, step = 1; d < size->size(); step *= (*size)[d], ++d) {
      const std::uint32_t side = (*size)[d];
      const bool last = i / step % side + 1 == side;
      if (last && (!closed || side == 2)) continue;
      out.join(gpus[i], gpus[last ? i - (side - 1) * step : i + step], *each, n->lane);
    }
  }
  return std::move(out.topology());
}

struct DragonflySize {
  std::uint32_t hosts, routers, global, groups;
};

Result<DragonflySize> dragonfly_size(const Wanted& wanted) {
  for (const auto& [option, given] :
       {std::pair("--hosts", wanted.hosts), std::pair("--routers", wanted.routers),
        std::pair("--global", wanted.global), std::pair("--groups", wanted.groups)}) {
    if (given == 0U) return Error{fmt::format("{} is 0; it must be 1 or more", option)};
  }
  DragonflySize s{wanted.hosts.value_or(0), wanted.routers.value_or(0), wanted.global.value_or(0),
                  wanted.groups.value_or(0)};
  if (wanted.radix && (s.hosts | s.routers | s.global) == 0) {
    // Balanced: twice as many routers as hosts and as global links.
    s.global = (*wanted.radix + 1) / 4;
    s.hosts = s.global;
    s.routers = 2 * s.global;
  }
  if (wanted.radix && s.global == 0 && s.hosts == 0) {
    return Error{
        fmt::format("--radix is {}, but a dragonfly's router has at least 3 ports", *wanted.radix)};
  }
  if (s.global == 0) s.global = s.hosts;
  if (s.routers == 0) s.routers = 2 * std::min(s.hosts, kMaxPorts);
  const std::uint64_t ports = std::uint64_t{s.hosts} + s.routers - 1 + s.global;
  if (s.routers != 0 && ports > kMaxPorts) {
    return Error{
        fmt::format("a router has {} accelerators + {} in the group + {} global = {} ports; no "
                    "node has more than {}: take {} away",
                    s.hosts, s.routers - 1, s.global, ports, kMaxPorts, ports - kMaxPorts)};
  }
  if (s.hosts == 0 || s.routers == 0 || s.global == 0) {
    return Error{
        "a dragonfly needs --radix, or --hosts (accelerators at a router) with, if not "
        "twice and once that, --routers of a group and --global links of a router"};
  }
  if (wanted.radix && ports > *wanted.radix) {
    return Error{
        fmt::format("--radix is {}, but a router has {} accelerators + {} in the group + {} global "
                    "= {} ports: {} - {} = {} too many; take a larger radix, or leave it out",
                    *wanted.radix, s.hosts, s.routers - 1, s.global, ports, ports, *wanted.radix,
                    ports - *wanted.radix)};
  }
  const std::uint64_t most = std::uint64_t{s.routers} * s.global + 1;
  const std::uint64_t in_group = std::uint64_t{s.hosts} * s.routers;
  if (s.groups == 0 && wanted.gpu_count) {
    if (*wanted.gpu_count % in_group != 0) {
      return Error{fmt::format("--gpu-count {} does not fill groups of {} x {} = {} accelerators",
                               *wanted.gpu_count, s.hosts, s.routers, in_group)};
    }
    s.groups = static_cast<std::uint32_t>(*wanted.gpu_count / in_group);
  }
  if (s.groups == 0) s.groups = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, kMaxNode));
  if (s.groups < 2 || s.groups > most) {
    return Error{
        fmt::format("{} groups: a group's {} x {} = {} global links reach {} others at "
                    "most, so take 2..{}",
                    s.groups, s.routers, s.global, most - 1, most - 1, most)};
  }
  return s;
}

Result<pb::Topology> dragonfly(const Wanted& wanted, const std::string& family) {
  const auto s = dragonfly_size(wanted);
  if (!s) return s.error();
  const std::uint64_t gpus = std::uint64_t{s->hosts} * s->routers * s->groups;
  if (gpus + std::uint64_t{s->routers} * s->groups > kMaxNode) {
    return Error{
        fmt::format("{} accelerators and {} routers are more than {} nodes (N3); take fewer "
                    "--groups",
                    gpus, std::uint64_t{s->routers} * s->groups, kMaxNode)};
  }
  if (wanted.gpu_count && *wanted.gpu_count != gpus) {
    return Error{fmt::format("--gpu-count is {}, but {} x {} x {} = {}", *wanted.gpu_count,
                             s->hosts, s->routers, s->groups, gpus)};
  }
  const std::uint32_t per_pair = s->routers * s->global / (s->groups - 1);
  const std::uint64_t in_group = std::uint64_t{s->routers} * (s->routers - 1) / 2;
  const std::uint64_t between = std::uint64_t{s->groups} * (s->groups - 1) / 2 * per_pair;
  if (auto ok = few_enough(gpus + s->groups * in_group + between,
                           fmt::format("{} of accelerators + {} x {} in groups + {} between them",
                                       gpus, s->groups, in_group, between));
      !ok) {
    return ok.error();
  }
  Wanted counted = wanted;
  counted.gpu_count = static_cast<std::uint32_t>(gpus);
  auto n = numbers(counted, 0);
  if (!n) return n.error();
  FabricBuilder out;
  begin(out, counted, family, *n);
  const auto lanes = share(out, *n, 1, "to its router");
  if (!lanes) return lanes.error();
  out.show(fmt::format("a router: {} accelerators + {} in the group + {} global = {} ports",
                       s->hosts, s->routers - 1, s->global, s->hosts + s->routers - 1 + s->global));
  out.show(fmt::format("{} groups: {} x {} global links / {} other groups = {} to each", s->groups,
                       s->routers, s->global, s->groups - 1, per_pair));
  const auto all = accelerators(out, *n, false);
  std::vector<Node> routers;
  for (std::uint32_t i = 0; i < s->groups * s->routers; ++i) {
    routers.push_back(out.switch_node(fmt::format("g{}r{}", i / s->routers, i % s->routers), 1));
    out.place(routers.back(), {i / s->routers, i % s->routers});
  }
  for (std::uint32_t i = 0; i < n->gpus; ++i)
    out.join(all[i], routers[i / s->hosts], *lanes, n->lane);
  for (std::uint32_t g = 0; g < s->groups; ++g) {
    const Node* own = routers.data() + std::size_t{g} * s->routers;
    for (std::uint32_t a = 0; a < s->routers; ++a) {
      for (std::uint32_t b = a + 1; b < s->routers; ++b) out.join(own[a], own[b], *lanes, n->lane);
    }
    // Link k of a group goes to the group (k / per_pair + 1) on, from its router k / global.
    for (std::uint32_t h = g + 1; h < s->groups; ++h) {
      for (std::uint32_t p = 0; p < per_pair; ++p) {
        const std::uint32_t here = (h - g - 1) * per_pair + p;
        const std::uint32_t there = (s->groups - 1 - (h - g)) * per_pair + p;
        out.join(own[here / s->global], routers[h * s->routers + there / s->global], *lanes,
                 n->lane);
      }
    }
  }
  return std::move(out.topology());
}

/// Numbers of Wanted that not every shape uses, a bit each.
enum Option : std::uint32_t {
  kRadix = 1U << 0,
  kLevels = 1U << 1,
  kOversubscription = 1U << 2,
  kPlanes = 1U << 3,
  kRails = 1U << 4,
  kSize = 1U << 5,
  kGroups = 1U << 6,
  kRouters = 1U << 7,
  kHosts = 1U << 8,
  kGlobal = 1U << 9,
};

struct Family {
  const char* name;
  const char* about;
  std::uint32_t uses;  ///< Options
  Result<pb::Topology> (*make)(const Wanted&, const std::string&);
};

constexpr std::uint32_t kOfClos = kRadix | kLevels | kOversubscription;

constexpr Family kFamilies[] = {
    {"fc8", "eight accelerators, each joined to each", 0, mesh},
    {"mesh", "accelerators, each joined to each", 0, mesh},
    {"ring", "accelerators in a ring", 0, ring},
    {"double-ring", "the same with two links to each neighbour", 0, ring},
    {"tree", "switches with one link up", kRadix, tree},
    {"flat", "every accelerator on the switch of every plane", kRadix | kPlanes, flat},
    {"clos", "leaves and spines (--levels 2, or 3 with pods)", kOfClos, clos},
    {"fat-tree", "leaves, middle and top switches (--levels 3, or 2)", kOfClos, clos},
    {"torus", "accelerators in closed rows along each dimension (--size)", kSize, torus},
    {"mesh-nd", "accelerators in open rows along each dimension (--size)", kSize, torus},
    {"dragonfly", "groups of routers, each group with links to each",
     kRadix | kHosts | kRouters | kGlobal | kGroups, dragonfly},
    {"rail", "accelerator k of every host on a leaf of rail k, spines above", kRadix | kRails,
     rail},
};

/// The options that are given, as a user writes them, of those in `which`, or all of these.
std::string options(const Wanted& w, std::uint32_t which, bool only_given) {
  const struct {
    const char* name;
    Option bit;
    bool given;
  } all[] = {{"--radix", kRadix, w.radix.has_value()},
             {"--levels", kLevels, w.levels.has_value()},
             {"--oversubscription", kOversubscription, w.oversubscription.has_value()},
             {"--planes", kPlanes, w.planes.has_value()},
             {"--rails", kRails, w.rails.has_value()},
             {"--size", kSize, !w.size.empty()},
             {"--hosts", kHosts, w.hosts.has_value()},
             {"--routers", kRouters, w.routers.has_value()},
             {"--global", kGlobal, w.global.has_value()},
             {"--groups", kGroups, w.groups.has_value()}};
  std::string list;
  for (const auto& option : all) {
    if ((option.bit & which) == 0 || (only_given && !option.given)) continue;
    list += (list.empty() ? "" : ", ") + std::string(option.name);
  }
  return list;
}

/// What is given is used, or refused.
Result<void> uses_all(const Wanted& wanted, const Family& family) {
  const std::string unused = options(wanted, ~family.uses, true);
  if (unused.empty()) return {};
  const std::string own = options(wanted, family.uses, false);
  return Error{
      fmt::format("{} has no use for {}: it takes {}{}--gpu-count, --bandwidth, --lane, "
                  "--delay-ns, --mtu and --name; leave out what it does not take",
                  family.name, unused, own, own.empty() ? "" : ", ")};
}

}  // namespace

std::vector<Choice> families() {
  std::vector<Choice> out;
  for (const Family& family : kFamilies) out.push_back({family.name, family.about});
  return out;
}

Result<pb::Topology> generate(const Wanted& wanted) {
  std::string lower = wanted.topology;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string list;
  for (const Family& family : kFamilies) {
    if (lower != family.name) {
      list += (list.empty() ? "" : ", ") + std::string(family.name);
      continue;
    }
    if (auto ok = uses_all(wanted, family); !ok) return ok.error();
    auto made = family.make(wanted, lower);
    if (!made) return made;
    for (pb::Link& link : *made->mutable_links()) {
      link.set_delay_ns(wanted.delay_ns);
      if (wanted.mtu) link.set_mtu(*wanted.mtu);
    }
    return made;
  }
  if (auto preset = make_preset(lower, wanted, options(wanted, ~0U, true)))
    return std::move(*preset);
  for (const Choice& choice : presets()) list += ", " + choice.name;
  return Error{
      fmt::format("there is no topology \"{}\"; it must be one of: {}", wanted.topology, list)};
}

Result<std::uint64_t> parse_rate(const std::string& text) {
  const auto wrong = [&] {
    return Error{
        fmt::format("\"{}\" is no rate; give bits per second as in 1.6T, 800G or 1000000", text)};
  };
  std::size_t i = 0;
  std::uint64_t value = 0;
  std::uint64_t scale = 0;  // of the digits behind the point
  for (; i < text.size() && (std::isdigit(static_cast<unsigned char>(text[i])) || text[i] == '.');
       ++i) {
    if (text[i] == '.') {
      if (scale != 0 || i == 0) return wrong();
      scale = 1;
      continue;
    }
    if (value > kMostDigits / 10 || scale > kMostDigits / 10) return wrong();
    value = value * 10 + static_cast<std::uint64_t>(text[i] - '0');
    scale *= 10;
  }
  std::uint64_t unit = 1;
  if (i == 0 || i + 1 < text.size()) return wrong();
  if (i < text.size()) {
    const std::size_t which = std::string("kMGT").find(text[i]);
    if (which == std::string::npos) return wrong();
    for (std::size_t k = 0; k <= which; ++k) unit *= 1000;
  }
  const unsigned __int128 product = static_cast<unsigned __int128>(value) * unit;
  scale = std::max<std::uint64_t>(scale, 1);
  if (product % scale != 0 || product / scale > kMostDigits || product == 0) return wrong();
  return static_cast<std::uint64_t>(product / scale);
}

Result<std::vector<std::uint32_t>> parse_size(const std::string& text) {
  std::vector<std::uint32_t> size{0};
  for (const char c : text) {
    if (c == 'x' && size.back() != 0) {
      size.push_back(0);
    } else if (c >= '0' && c <= '9' && size.back() < 100'000) {
      size.back() = size.back() * 10 + static_cast<std::uint32_t>(c - '0');
    } else {
      size.back() = 0;
      break;
    }
  }
  if (size.back() != 0 && size.size() <= 8) return size;
  return Error{fmt::format("\"{}\" is no size; give up to eight sides as in 4x4x4", text)};
}

}  // namespace mtl::topology
