#include "topology/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "topology/fabric_builder.h"
#include "topology/graph.h"

// Published machines. Only what a source says is taken; what it leaves open (which port goes where,
// processors beside the accelerators) is said in the arithmetic.
namespace mtl::topology {

namespace pb = mtlink::topology;

namespace {

using Node = FabricBuilder::Node;

constexpr std::uint64_t kG = 1'000'000'000;

void begin(FabricBuilder& out, const std::string& preset, const std::string& family) {
  out.topology().set_name(preset);
  out.topology().mutable_origin()->set_family(family);
  out.topology().mutable_origin()->set_preset(preset);
}

std::vector<Node> accelerators(FabricBuilder& out, std::uint32_t count, std::uint32_t lanes,
                               bool transit = false) {
  std::vector<Node> gpus;
  for (std::uint32_t i = 0; i < count; ++i) {
    gpus.push_back(out.endpoint(fmt::format("gpu{}", i), transit));
    out.lanes(gpus.back(), lanes);
  }
  return gpus;
}

/// 72 accelerators, a link from each to each of 18 switch chips.
void nvl72(FabricBuilder& out) {
  begin(out, "nvl72", "flat");
  const auto gpus = accelerators(out, 72, 36);
  for (std::uint32_t chip = 0; chip < 18; ++chip) {
    const Node node = out.switch_node(fmt::format("tray{}-chip{}", chip / 2, chip % 2), 1, 72);
    for (const Node gpu : gpus) out.join(gpu, node, 2, 200 * kG);
  }
  out.show("a link: 100 GB/s both ways = 50 GB/s each way = 400G = 2 lanes x 200G");
  out.show("an accelerator: 18 links x 400G = 7.2T each way = 900 GB/s, 1.8 TB/s both ways");
  out.show("switch chips: 9 trays x 144 ports / 2 chips = 72 ports each; 18 x 72 = 1296 = 72 x 18");
  out.cite("18 links of 100 GB/s an accelerator, 1.8 TB/s; a switch tray has 144 ports, 14.4 TB/s",
           "NVIDIA, NVLink and NVLink Switch, https://www.nvidia.com/en-us/data-center/nvlink/");
  out.cite("72 accelerators, 9 switch trays of two chips, 130 TB/s",
           "GB200 NVL72 architecture, https://setloop.io/blog/gb200-nvl72-architecture");
}

/// 8 accelerators with 18 links, 5, 4, 4 and 5 of them to four switch chips of 64 ports.
void dgx_h100(FabricBuilder& out) {
  begin(out, "dgx-h100", "flat");
  const auto gpus = accelerators(out, 8, 36);
  constexpr std::array<std::uint32_t, 4> kLinks{5, 4, 4, 5};
  for (std::uint32_t chip = 0; chip < 4; ++chip) {
    const Node node = out.switch_node(fmt::format("nvswitch{}", chip), 1, 64);
    for (const Node gpu : gpus) {
      for (std::uint32_t l = 0; l < kLinks[chip]; ++l) out.join(gpu, node, 2, 100 * kG);
    }
  }
  out.show("a link: 50 GB/s both ways = 25 GB/s each way = 200G = 2 lanes x 100G");
  out.show("an accelerator: 5 + 4 + 4 + 5 = 18 links x 200G = 3.6T each way = 450 GB/s");
  out.show(
      "switch chips: 8 x 5 = 40 or 8 x 4 = 32 of 64 ports; the others (20, 16) lead out of the "
      "host and are left free");
  out.cite("18 links of 50 GB/s an accelerator; 64 ports a switch chip",
           "NVIDIA, Upgrading Multi-GPU Interconnectivity with the Third-Generation NVSwitch, "
           "https://developer.nvidia.com/blog/"
           "upgrading-multi-gpu-interconnectivity-with-the-third-generation-nvidia-nvswitch/");
  out.cite("5 and 4 links from an accelerator to the chips, 20 and 16 ports out; 100G a lane",
           "The NVLink-Network Switch, Hot Chips 34, reported at "
           "https://servethehome.com/?p=63224");
}

/// 48 hosts of 8 accelerators and 7 first-level chips; 7 sub-planes of 16 second-level chips.
void cloudmatrix384(FabricBuilder& out) {
  begin(out, "cloudmatrix384", "clos");
  constexpr std::uint32_t kHosts = 48, kGpus = 8, kPlanes = 7, kSecond = 16;
  const auto gpus = accelerators(out, kHosts * kGpus, 2 * kPlanes);
  std::vector<Node> first, second;
  for (std::uint32_t i = 0; i < kHosts * kPlanes; ++i) {
    first.push_back(
        out.switch_node(fmt::format("host{}-l1-{}", i / kPlanes, i % kPlanes), 1, 16 + 16));
  }
  for (std::uint32_t i = 0; i < kPlanes * kSecond; ++i) {
    second.push_back(
        out.switch_node(fmt::format("plane{}-l2-{}", i / kSecond, i % kSecond), 2, 48));
  }
  for (std::uint32_t h = 0; h < kHosts; ++h) {
    std::vector<Node> host;
    for (std::uint32_t p = 0; p < kPlanes; ++p) {
      const Node chip = first[h * kPlanes + p];
      for (std::uint32_t g = 0; g < kGpus; ++g) out.join(gpus[h * kGpus + g], chip, 2, 224 * kG);
      for (std::uint32_t s = 0; s < kSecond; ++s) {
        out.join(chip, second[p * kSecond + s], 1, 224 * kG);
      }
      host.push_back(chip);
    }
    for (std::uint32_t g = 0; g < kGpus; ++g) host.push_back(gpus[h * kGpus + g]);
    out.group(fmt::format("host{}", h), host);
  }
  out.show("a port: 28 GB/s each way = 224G");
  out.show(
      "an accelerator: 392 GB/s each way / 7 first-level chips = 56 GB/s = 2 x 28 GB/s to each");
  out.show(
      "a first-level chip: down 8 accelerators x 56 = 448 GB/s, up 16 x 28 = 448 GB/s: nothing "
      "is oversubscribed");
  out.show(
      "second level: 7 sub-planes x 16 chips = 112, each with 48 ports x 28 GB/s, one for each "
      "host");
  out.show("left out: the 4 processors of each host, which hang on the first-level chips as well");
  out.cite(
      "384 NPUs in 48 hosts; 7 first-level switch chips a host with 448 GB/s up each; a sub-plane "
      "of 16 second-level chips of 48 ports x 28 GB/s for each; 392 GB/s an NPU",
      "P. Zuo et al., Serving Large Language Models on Huawei CloudMatrix384, 2025, section 3, "
      "https://arxiv.org/abs/2506.12708");
}

void mi300x(FabricBuilder& out) {
  begin(out, "mi300x", "mesh");
  const auto gpus = accelerators(out, 8, 7 * 16, true);
  for (std::uint32_t i = 0; i < 8; ++i) {
    for (std::uint32_t j = i + 1; j < 8; ++j) out.join(gpus[i], gpus[j], 16, 32 * kG);
  }
  out.show("a link: 16 lanes x 32G = 512G each way = 64 GB/s, 128 GB/s both ways");
  out.show("an accelerator: 7 links, one to each other, x 64 GB/s = 448 GB/s each way");
  out.cite(
      "up to seven links of 16 lanes at 32G, 128 GB/s both ways each; accelerators joined directly",
      "AMD Looks to Infinity for AI Interconnects, https://www.wheelersnetwork.com/2024/01/");
}

void tpu_v4(FabricBuilder& out, const std::string& preset, std::uint32_t side) {
  begin(out, preset, "torus");
  const auto gpus = accelerators(out, side * side * side, 6, true);
  const auto at = [&](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    return gpus[(z % side * side + y % side) * side + x % side];
  };
  for (std::uint32_t z = 0; z < side; ++z) {
    for (std::uint32_t y = 0; y < side; ++y) {
      for (std::uint32_t x = 0; x < side; ++x) {
        out.place(at(x, y, z), {x, y, z});
        out.join(at(x, y, z), at(x + 1, y, z), 1, 400 * kG);
        out.join(at(x, y, z), at(x, y + 1, z), 1, 400 * kG);
        out.join(at(x, y, z), at(x, y, z + 1), 1, 400 * kG);
      }
    }
  }
  out.show("an accelerator: 6 links, two along each dimension, x 50 GB/s = 400G each way");
  out.show(
      fmt::format("{0} x {0} x {0} = {1} accelerators, {1} x 6 / 2 = {2} links; the rows are "
                  "closed by the optical switches",
                  side, side * side * side, side * side * side * 3));
  out.cite(
      "six links of 50 GB/s an accelerator; cubes of 4 x 4 x 4 closed or joined to others by "
      "optical "
      "circuit switches, 4,096 accelerators in all",
      "N. Jouppi et al., TPU v4: An Optically Reconfigurable Supercomputer, ISCA 2023, "
      "https://arxiv.org/abs/2304.01433");
}

/// Eight books of four processors: each processor has three links in the book and two out of it.
void power6_595(FabricBuilder& out) {
  begin(out, "power6-595", "books");
  std::vector<Node> chips;
  for (std::uint32_t i = 0; i < 32; ++i) {
    chips.push_back(out.endpoint(fmt::format("book{}-{}", i / 4, "STUV"[i % 4]), true));
  }
  std::array<std::uint32_t, 8> used{};
  for (std::uint32_t b = 0; b < 8; ++b) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      for (std::uint32_t j = i + 1; j < 4; ++j) out.join(chips[b * 4 + i], chips[b * 4 + j], 1, kG);
    }
  }
  for (std::uint32_t b = 0; b < 8; ++b) {
    for (std::uint32_t c = b + 1; c < 8; ++c) {
      out.join(chips[b * 4 + used[b]++ % 4], chips[c * 4 + used[c]++ % 4], 1, kG);
    }
    const auto first = std::ptrdiff_t{b} * 4;
    out.group(fmt::format("book{}", b), {chips.begin() + first, chips.begin() + first + 4});
  }
  out.show("a processor: 3 links to the others of its book + 2 out of it = 5 ports");
  out.show("a book: 4 x 2 = 8 ports out, 7 of them to the 7 other books, one free");
  out.show(
      "not published: which processor has the link to which book (here by turns), and rates "
      "(here 1G)");
  out.cite(
      "books of four processors S, T, U and V; five fabric ports a processor, three within the "
      "book; every book joined to every other",
      "IBM Power 595 Technical Overview and Introduction, section 2.2, "
      "https://www.manualslib.com/manual/861999/Ibm-Power-595.html?page=63");
}

/// One switch port for each accelerator, on each of two planes.
void ualink_1024(FabricBuilder& out) {
  begin(out, "ualink-1024", "flat");
  const auto gpus = accelerators(out, 1024, 8);
  for (std::uint32_t p = 0; p < 2; ++p) {
    const Node plane = out.switch_node(fmt::format("plane{}", p), 1, 1024);
    for (const Node gpu : gpus) out.join(gpu, plane, 4, 200 * kG);
  }
  out.show(
      "a station: 4 lanes x 200G = 800G; here 2 stations an accelerator = 1.6T, each on a plane "
      "of its own (the specification leaves their number open)");
  out.show(
      "a plane: 1024 accelerators, a switch port for each; stands for as many chips as that takes");
  out.cite("200G a lane, stations of four lanes; up to 1,024 accelerators in a pod",
           "UALink 200G 1.0 Specification Overview, "
           "https://ualinkconsortium.org/blog/ualink-200g-1-0-specification-overview-802/");
}

struct Preset {
  const char* name;
  const char* about;
  void (*make)(FabricBuilder&);
};

constexpr Preset kPresets[] = {
    {"nvl72", "72 accelerators on 18 switch chips", nvl72},
    {"dgx-h100", "8 accelerators on 4 switch chips", dgx_h100},
    {"cloudmatrix384", "384 accelerators, two-level Clos in 7 planes", cloudmatrix384},
    {"mi300x", "8 accelerators, each joined to each", mi300x},
    {"tpu-v4-cube", "64 accelerators in a 4x4x4 torus",
     [](FabricBuilder& out) { tpu_v4(out, "tpu-v4-cube", 4); }},
    {"tpu-v4-pod", "4,096 accelerators in a 16x16x16 torus",
     [](FabricBuilder& out) { tpu_v4(out, "tpu-v4-pod", 16); }},
    {"ualink-1024", "1,024 accelerators on two switch planes", ualink_1024},
    {"power6-595", "8 books of 4 processors, each book joined to each", power6_595},
};

/// A preset's numbers are its own.
std::optional<std::string> other_numbers(const Wanted& wanted, std::string given,
                                         const pb::Topology& made) {
  const auto gpus = std::count_if(made.nodes().begin(), made.nodes().end(),
                                  [](const pb::Node& n) { return n.role() == pb::Node::ENDPOINT; });
  if (wanted.gpu_count && *wanted.gpu_count != static_cast<std::uint32_t>(gpus)) {
    return fmt::format("--gpu-count is {}, but {} has {} accelerators; leave it out",
                       *wanted.gpu_count, made.name(), gpus);
  }
  if (wanted.lane) given = "--lane" + (given.empty() ? "" : ", " + given);
  if (wanted.bandwidth) given = "--bandwidth" + (given.empty() ? "" : ", " + given);
  if (!given.empty()) {
    return fmt::format(
        "{} is a preset, whose bandwidth and shape are as published; leave {} out, or take the "
        "family {}",
        made.name(), given, made.origin().family());
  }
  return std::nullopt;
}

}  // namespace

std::vector<Choice> presets() {
  std::vector<Choice> out;
  for (const Preset& preset : kPresets) out.push_back({preset.name, preset.about});
  return out;
}

std::optional<Result<pb::Topology>> make_preset(const std::string& name, const Wanted& wanted,
                                                const std::string& numbers) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    FabricBuilder out;
    preset.make(out);
    if (auto why = other_numbers(wanted, numbers, out.topology()))
      return Result<pb::Topology>(Error{*why});
    if (!wanted.name.empty()) out.topology().set_name(wanted.name);
    for (pb::Link& link : *out.topology().mutable_links()) {
      link.set_delay_ns(wanted.delay_ns);
      if (wanted.mtu) link.set_mtu(*wanted.mtu);
    }
    return Result<pb::Topology>(std::move(out.topology()));
  }
  return std::nullopt;
}

}  // namespace mtl::topology
