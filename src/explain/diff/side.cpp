#include "explain/diff/side.hpp"

#include "base/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

// The recordings that ran at the same time, in the order of their beginnings; nothing if one has no
// clock, or if some of a group do not overlap with each other.
std::optional<std::vector<std::vector<RunPeaks*>>> groups_in_time(std::vector<RunPeaks>& runs) {
  std::vector<RunPeaks*> order;
  for (RunPeaks& run : runs) {
    if (!run.begin_ns) return std::nullopt;
    order.push_back(&run);
  }
  std::ranges::stable_sort(order, {}, [](const RunPeaks* run) { return *run->begin_ns; });
  std::vector<std::vector<RunPeaks*>> groups;
  int64_t first_end = 0;
  int64_t last_end = 0;
  for (RunPeaks* run : order) {
    if (groups.empty() || *run->begin_ns > last_end) {
      groups.emplace_back();
      first_end = last_end = run->end_ns;
    }
    if (*run->begin_ns > first_end) return std::nullopt;
    first_end = std::min(first_end, run->end_ns);
    last_end = std::max(last_end, run->end_ns);
    groups.back().push_back(run);
  }
  return groups;
}

// Processes that ran at the same time are ranks, even if no recording says so: of one run, or of
// several runs of as many processes.
void number_processes(std::vector<RunPeaks>& runs) {
  std::ranges::sort(runs, {}, &RunPeaks::path);
  if (std::ranges::any_of(runs, [](const RunPeaks& run) { return run.rank.has_value(); })) return;
  auto groups = groups_in_time(runs);
  if (!groups || groups->empty() || groups->front().size() < 2) return;
  for (const auto& group : *groups)
    if (group.size() != groups->front().size()) return;
  for (auto& group : *groups) {
    std::ranges::sort(group, {}, &RunPeaks::path);
    for (size_t i = 0; i < group.size(); ++i) {
      group[i]->rank = i;
      for (DevicePeak& device : group[i]->devices) device.rank = i;
    }
  }
}

SideDevice at_median(std::vector<DevicePeak> peaks) {
  std::ranges::stable_sort(peaks, {}, &DevicePeak::requested_bytes);
  SideDevice device;
  device.runs = peaks.size();
  device.runs_with_oom =
      static_cast<uint64_t>(std::ranges::count_if(peaks, [](const auto& p) { return p.ooms > 0; }));
  DevicePeak& median = peaks[(peaks.size() - 1) / 2];
  std::vector<uint64_t> deviations;
  for (const DevicePeak& peak : peaks) {
    const auto [least, most] = std::minmax(peak.requested_bytes, median.requested_bytes);
    deviations.push_back(most - least);
  }
  device.mad_bytes = median_of(std::move(deviations));
  device.peak = std::move(median);
  return device;
}

}  // namespace

Side make_side(std::string name, std::vector<RunPeaks> runs) {
  number_processes(runs);
  // A rank's only GPU may have another number in each run.
  std::map<std::optional<uint64_t>, bool> has_one_gpu;
  for (const RunPeaks& run : runs) {
    const auto is_gpu = [](const DevicePeak& device) { return !device.is_host; };
    const bool has_one = std::ranges::count_if(run.devices, is_gpu) <= 1;
    has_one_gpu[run.rank] = has_one_gpu.try_emplace(run.rank, true).first->second && has_one;
  }
  using Key = std::tuple<std::optional<uint64_t>, bool, uint32_t>;
  std::map<Key, std::vector<DevicePeak>> found;
  for (RunPeaks& run : runs) {
    for (DevicePeak& device : run.devices) {
      const uint32_t ordinal = has_one_gpu[run.rank] ? 0 : device.ordinal;
      found[{run.rank, device.is_host, ordinal}].push_back(std::move(device));
    }
  }
  Side side{.name = std::move(name), .devices = {}};
  for (auto& [key, peaks] : found) side.devices.push_back(at_median(std::move(peaks)));
  return side;
}

}  // namespace vram::explain
