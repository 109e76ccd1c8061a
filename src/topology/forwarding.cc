#include "topology/forwarding.h"

#include <functional>
#include <string_view>

#include "base/ids.h"

namespace mtl::topology {

Forwarding::Forwarding(const std::vector<std::vector<Far>>& links, std::size_t columns)
    : columns_(columns), entries_(columns * links.size(), kNone), lists_(1) {
  first_.push_back(0);
  for (const auto& own : links) {
    far_.insert(far_.end(), own.begin(), own.end());
    first_.push_back(far_.size());
  }
  numbers_.emplace(Hops{}, kNone);
}

std::size_t Forwarding::HashOfHops::operator()(const Hops& hops) const noexcept {
  static_assert(std::has_unique_object_representations_v<Hop>);
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(hops.data()), hops.size() * sizeof(Hop)});
}

Forwarding::HopsId Forwarding::intern(const Hops& hops) {
  const auto [place, fresh] = numbers_.emplace(hops, static_cast<HopsId>(lists_.size()));
  if (fresh) lists_.push_back(hops);
  return place->second;
}

void Forwarding::lower() {
  numbers_.clear();
  for (HopsId id = 0; id < lists_.size(); ++id) {
    for (Hop& hop : lists_[id]) hop.raise = 0;
    numbers_.emplace(lists_[id], id);
  }
}

std::size_t Forwarding::bytes() const {
  std::size_t bytes = entries_.size() * sizeof(HopsId) + far_.size() * sizeof(Far);
  for (const Hops& hops : lists_) bytes += 2 * (sizeof(Hops) + hops.size() * sizeof(Hop));
  return bytes;
}

void Layers::follow(std::size_t column, std::uint8_t tiers) {
  open_.clear();
  for (std::size_t node = 0; node < at_.size(); ++node) {
    at_[node] = tables_.at(node, column) == Forwarding::kNone ? 0 : 1;
    if (at_[node] != 0) open_.push_back(static_cast<std::uint32_t>(node));
  }
  constexpr unsigned kAll = (1U << kLayers) - 1;
  while (!open_.empty()) {
    const std::uint32_t node = open_.back();
    open_.pop_back();
    const auto links = tables_.links(node);
    for (const Forwarding::Hop& hop : tables_.hops(node, column)) {
      if (hop.tier >= tiers) break;
      std::uint8_t& far = at_[links[hop.out].node];
      const auto now = static_cast<std::uint8_t>(far | ((at_[node] << hop.raise) & kAll));
      if (now == far) continue;
      far = now;
      open_.push_back(links[hop.out].node);
    }
  }
}

}  // namespace mtl::topology
