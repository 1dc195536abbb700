#include "pages/groups.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "show/names.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

namespace vram::pages {
namespace {

using explain::DeviceView;
using explain::Dimension;

constexpr std::string_view kSizeRange = "size_range";
constexpr std::string_view kStep = "step";
constexpr std::array kDimensions = {Dimension::kUserFrame, Dimension::kSize,   Dimension::kCategory,
                                    Dimension::kScope,     Dimension::kStream, Dimension::kPool};

// Numbers names in the order in which they come.
class NameList {
 public:
  uint32_t intern(std::string name) {
    const auto [entry, is_new] = ids_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(explain::fit_name(std::move(name), room_bytes_));
    return entry->second;
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> ids_;
  uint64_t room_bytes_ = explain::kMaxNamesBytes;
};

Groups group_by(const DeviceView& view, Dimension by) {
  explain::GroupNames grouping(view, by);
  NameList names;
  std::unordered_map<uint64_t, uint32_t> group_of_key;
  Groups groups{show::identifier(by), {}, {}};
  const size_t count = view.history.lifetimes.size();
  groups.of_lifetime.reserve(count);
  for (uint32_t id = 0; id < count; ++id) {
    auto [entry, is_new] = group_of_key.try_emplace(grouping.key(id));
    if (is_new) entry->second = names.intern(grouping.name(id));
    groups.of_lifetime.push_back(entry->second);
  }
  groups.names = names.take();
  return groups;
}

// By powers of two of the requested size: few groups, where the report's size classes are many.
Groups group_by_size_range(const DeviceView& view) {
  Groups groups{kSizeRange, {}, {}};
  std::array<std::optional<uint32_t>, 65> group_of_power;
  for (const explain::Lifetime& life : view.history.lifetimes) {
    const auto power = static_cast<size_t>(std::bit_width(life.requested_bytes));
    if (!group_of_power[power]) {
      group_of_power[power] = static_cast<uint32_t>(groups.names.size());
      const uint64_t least = power == 0 ? 0 : uint64_t{1} << (power - 1);
      groups.names.push_back(trf("from {}", format_bytes(least)));
    }
    groups.of_lifetime.push_back(*group_of_power[power]);
  }
  return groups;
}

// By the step in which a block was allocated.
Groups group_by_step(const DeviceView& view) {
  const auto& steps = view.report.steps.steps;
  Groups groups{kStep, {std::string(explain::kBeforeName), tr("outside all steps")}, {}};
  constexpr uint32_t kBefore = 0;
  constexpr uint32_t kOutside = 1;
  for (size_t i = 0; i < steps.size(); ++i) groups.names.push_back(trf("step {}", i));
  size_t next = 0;  // both lifetimes and steps are in order of events
  for (const explain::Lifetime& life : view.history.lifetimes) {
    if (life.alloc_event == explain::kBeforeRecording) {
      groups.of_lifetime.push_back(kBefore);
      continue;
    }
    while (next < steps.size() &&
           life.alloc_event >= steps[next].first_event + steps[next].event_count)
      ++next;
    const bool is_inside = next < steps.size() && life.alloc_event >= steps[next].first_event;
    groups.of_lifetime.push_back(is_inside ? static_cast<uint32_t>(next) + kOutside + 1 : kOutside);
  }
  return groups;
}

// The sum of bytes that each group held after each event: its area in a timeline by events.
std::vector<double> areas(const DeviceView& view, const Groups& groups) {
  const auto events = static_cast<double>(view.device.event_count);
  std::vector<double> area(groups.names.size());
  for (uint32_t id = 0; id < view.history.lifetimes.size(); ++id) {
    const explain::Lifetime& life = view.history.lifetimes[id];
    const double begin =
        life.alloc_event == explain::kBeforeRecording ? 0 : static_cast<double>(life.alloc_event);
    const double end = life.free_completed_event == explain::kNever
                           ? events
                           : static_cast<double>(life.free_completed_event);
    area[groups.of_lifetime[id]] += static_cast<double>(life.requested_bytes) * (end - begin);
  }
  return area;
}

// The largest first; groups without blocks are dropped.
void sort_groups(const DeviceView& view, Groups& groups) {
  const std::vector<double> area = areas(view, groups);
  std::vector<uint32_t> order(groups.names.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater<>(), [&](uint32_t group) { return area[group]; });
  std::vector<bool> is_used(groups.names.size());
  for (const uint32_t group : groups.of_lifetime) is_used[group] = true;
  std::erase_if(order, [&](uint32_t group) { return !is_used[group]; });
  std::vector<uint32_t> place(groups.names.size());
  std::vector<std::string> names;
  for (const uint32_t group : order) {
    place[group] = static_cast<uint32_t>(names.size());
    names.push_back(std::move(groups.names[group]));
  }
  for (uint32_t& group : groups.of_lifetime) group = place[group];
  groups.names = std::move(names);
}

}  // namespace

std::vector<std::string_view> dimensions_of(const DeviceView& view) {
  const bool has_sites = view.trace.has_stacks || view.names.has_labels() || view.names.has_paths();
  std::vector<std::string_view> found;
  if (has_sites) found.push_back(show::identifier(Dimension::kUserFrame));
  found.push_back(show::identifier(Dimension::kSize));
  found.push_back(kSizeRange);
  if (view.names.has_labels()) found.push_back(show::identifier(Dimension::kCategory));
  for (const Dimension by : {Dimension::kScope, Dimension::kStream, Dimension::kPool})
    found.push_back(show::identifier(by));
  found.push_back(kStep);
  return found;
}

Groups find_groups(const DeviceView& view, std::string_view dimension) {
  Groups groups;
  if (dimension == kSizeRange) {
    groups = group_by_size_range(view);
  } else if (dimension == kStep) {
    groups = group_by_step(view);
  } else {
    const auto* const by = std::ranges::find(kDimensions, dimension,
                                             [](Dimension each) { return show::identifier(each); });
    VRAM_CHECK(by != kDimensions.end());
    groups = group_by(view, *by);
  }
  sort_groups(view, groups);
  return groups;
}

std::vector<Groups> find_groups(const DeviceView& view) {
  std::vector<Groups> found;
  for (const std::string_view dimension : dimensions_of(view)) {
    Groups groups = find_groups(view, dimension);
    if (found.empty() || groups.names.size() > 1) found.push_back(std::move(groups));
  }
  return found;
}

}  // namespace vram::pages
