// The sides of a comparison: recordings gathered by rank and device.
#include "base/statistics.hpp"
#include "explain/diff/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <ranges>
#include <tuple>
#include <utility>

namespace vram::explain {
namespace {

bool overlap_in_time(const std::vector<const RunPeaks*>& runs) {
  int64_t last_begin = std::numeric_limits<int64_t>::min();
  int64_t first_end = std::numeric_limits<int64_t>::max();
  for (const RunPeaks* run : runs) {
    if (!run->begin_ns) return false;
    last_begin = std::max(last_begin, *run->begin_ns);
    first_end = std::min(first_end, run->end_ns);
  }
  return last_begin <= first_end;
}

// Processes that ran at the same time are ranks, even if no recording says so.
void number_processes(std::vector<RunPeaks>& runs) {
  std::ranges::sort(runs, {}, &RunPeaks::path);
  std::vector<const RunPeaks*> unranked;
  for (const RunPeaks& run : runs)
    if (!run.rank) unranked.push_back(&run);
  if (unranked.size() < 2 || unranked.size() != runs.size() || !overlap_in_time(unranked)) return;
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].rank = i;
    for (DevicePeak& device : runs[i].devices) device.rank = i;
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
