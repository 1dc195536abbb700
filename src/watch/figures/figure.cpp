#include "watch/figures/figure.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <optional>

namespace vram::watch::figures {
namespace {

// The place of a cell that follows `after`: behind that cell and those that already follow it.
// Nothing while that cell has no place yet.
std::optional<size_t> place_after(std::string_view after, std::span<const size_t> order,
                                  std::span<const Place> places) {
  size_t place = 0;
  if (after != kFirst) {
    const auto other =
        std::ranges::find(order, after, [&](size_t index) { return places[index].name; });
    if (other == order.end()) return std::nullopt;
    place = static_cast<size_t>(other - order.begin()) + 1;
  }
  while (place < order.size() && places[order[place]].after == after) ++place;
  return place;
}

}  // namespace

std::vector<size_t> order_of(std::span<const Place> places) {
  std::vector<size_t> order;
  std::vector<size_t> waiting;
  for (size_t index = 0; index < places.size(); ++index)
    (places[index].after.empty() ? order : waiting).push_back(index);
  while (!waiting.empty()) {
    const auto next = std::ranges::find_if(waiting, [&](size_t index) {
      return place_after(places[index].after, order, places).has_value();
    });
    VRAM_CHECK(next != waiting.end());  // `after` names a cell of the view
    const size_t place = *place_after(places[*next].after, order, places);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), *next);
    waiting.erase(next);
  }
  return order;
}

}  // namespace vram::watch::figures
