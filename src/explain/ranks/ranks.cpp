#include "explain/ranks/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace vram::explain {
namespace {

const DeviceReport& device_of(const Report& report) { return report.devices[report.main_device]; }

RankLine line_of(const Report& report, uint64_t rank) {
  const DeviceReport& device = device_of(report);
  RankLine line{.rank = rank,
                .host = report.process.host,
                .path = report.path,
                .device = device.ordinal,
                .peak_requested_bytes = device.peak.requested.totals.requested_bytes,
                .peak_reserved_bytes = device.peak.reserved.totals.reserved_bytes,
                .headroom_bytes = {},
                .steps = device.steps.steps.size(),
                .ooms = device.oom_count};
  if (device.memory_bytes)
    line.headroom_bytes =
        *device.memory_bytes - std::min(*device.memory_bytes, line.peak_reserved_bytes);
  return line;
}

// The rank of each report: its own, unless another has it already.
std::vector<uint64_t> numbers_of(const std::vector<Report>& reports) {
  std::vector<std::optional<uint64_t>> rank_numbers;
  std::set<uint64_t> taken;
  for (const Report& report : reports) {
    const auto rank = report.process.rank;
    const bool is_new = rank && taken.insert(*rank).second;
    rank_numbers.push_back(is_new ? rank : std::nullopt);
  }
  std::vector<uint64_t> numbers;
  uint64_t next = 0;
  for (const auto& rank : rank_numbers) {
    while (!rank && taken.contains(next)) ++next;
    numbers.push_back(rank ? *rank : next++);
  }
  return numbers;
}

// Where the ranks differ in it, the index of the worst.
template <typename Badness>
std::optional<size_t> worst_in(const std::vector<RankLine>& ranks, Badness badness) {
  const auto [best, worst] = std::ranges::minmax_element(ranks, {}, badness);
  if (badness(*best) == badness(*worst)) return std::nullopt;
  return static_cast<size_t>(std::ranges::find(ranks, badness(*worst), badness) - ranks.begin());
}

void find_worst(RankReport& report) {
  const auto& ranks = report.ranks;
  const bool knows_headroom = std::ranges::all_of(
      ranks, [](const RankLine& line) { return line.headroom_bytes.has_value(); });
  const auto take = [&](RankMeasure measure, auto badness) {
    if (report.worst_by != RankMeasure::kNone) return;
    const auto worst = worst_in(ranks, badness);
    if (!worst) return;
    report.worst = *worst;
    report.worst_by = measure;
  };
  if (knows_headroom)
    take(RankMeasure::kHeadroom,
         [](const RankLine& line) { return ~line.headroom_bytes.value_or(0); });
  take(RankMeasure::kReserved, [](const RankLine& line) { return line.peak_reserved_bytes; });
  take(RankMeasure::kRequested, [](const RankLine& line) { return line.peak_requested_bytes; });
}

size_t find_median(const std::vector<RankLine>& ranks) {
  std::vector<size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return ranks[i].peak_requested_bytes; });
  return order[(order.size() - 1) / 2];
}

using Amounts = std::map<std::string, uint64_t>;

Amounts amounts_by(const Report& report, Dimension by) {
  Amounts amounts;
  for (const Breakdown& breakdown : device_of(report).at_peak.breakdowns) {
    if (breakdown.by != by) continue;
    for (const Holder& holder : breakdown.holders) amounts[holder.name] += holder.requested_bytes;
  }
  return amounts;
}

// What a rank's steps are called among the ranks: by their own names, and where several have one
// name ("train_step"), numbered by their order from the second on. A rank whose recording begins
// later still has its "step 17" at step 17.
std::vector<std::string> step_names(const Report& report) {
  std::map<std::string_view, size_t> seen;
  std::vector<std::string> names;
  for (const Step& step : device_of(report).steps.steps) {
    const size_t times = ++seen[step.name];
    names.push_back(times == 1 ? step.name : fmt::format("{}, {}", step.name, times));
  }
  return names;
}

Amounts amounts_by_step(const Report& report) {
  const std::vector<std::string> names = step_names(report);
  Amounts amounts;
  for (size_t i = 0; i < names.size(); ++i)
    amounts[names[i]] = device_of(report).steps.steps[i].peak_requested_bytes;
  return amounts;
}

// `is_shared`: only what both have; a rank that ran longer has not more in that step.
std::optional<Difference> largest_difference(const Amounts& worst, const Amounts& median,
                                             bool is_shared) {
  std::optional<Difference> largest;
  for (const auto& [name, bytes] : worst) {
    const auto other = median.find(name);
    if (is_shared && other == median.end()) continue;
    const Difference found{name, bytes, other == median.end() ? 0 : other->second};
    if (found.worst_bytes <= found.median_bytes) continue;
    if (!largest || found.more_bytes() > largest->more_bytes()) largest = found;
  }
  return largest;
}

// In the order of the rank that has most steps.
std::vector<AlignedStep> align_steps(std::span<const Report* const> reports) {
  const Report* longest = *std::ranges::max_element(
      reports, {}, [](const Report* report) { return device_of(*report).steps.steps.size(); });
  std::vector<Amounts> peaks;
  for (const Report* report : reports) peaks.push_back(amounts_by_step(*report));
  std::vector<AlignedStep> aligned;
  for (std::string& name : step_names(*longest)) {
    AlignedStep row{.name = std::move(name), .peak_bytes = {}};
    for (const Amounts& of_rank : peaks) {
      const auto found = of_rank.find(row.name);
      row.peak_bytes.push_back(found == of_rank.end() ? std::nullopt
                                                      : std::optional(found->second));
    }
    const auto has = [](const auto& bytes) { return bytes.has_value(); };
    if (std::ranges::count_if(row.peak_bytes, has) < 2) continue;
    row.worst =
        static_cast<size_t>(std::ranges::max_element(row.peak_bytes) - row.peak_bytes.begin());
    aligned.push_back(std::move(row));
  }
  return aligned;
}

// "run.rank3.vtrace" and "run.rank12.vtrace" are the same.
std::string name_without_digits(const Report& report) {
  std::string name = report.path.substr(report.path.find_last_of('/') + 1);
  std::string letters;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) letters += c;
    if (is_digit && !letters.ends_with('#')) letters += '#';
  }
  return letters;
}

template <typename Value>
bool is_same(const std::vector<Report>& reports, Value value) {
  return std::ranges::all_of(
      reports, [&](const Report& report) { return value(report) == value(reports.front()); });
}

template <typename Amount>
bool is_within_factor_two(const std::vector<Report>& reports, Amount amount) {
  const auto [least, most] = std::ranges::minmax(reports | std::views::transform(amount));
  return most / 2 <= least;
}

bool times_overlap(const std::vector<Report>& reports) {
  int64_t last_begin = std::numeric_limits<int64_t>::min();
  int64_t first_end = std::numeric_limits<int64_t>::max();
  for (const Report& report : reports) {
    if (report.clock != Clock::kTime) return false;
    const DeviceReport& device = device_of(report);
    last_begin = std::max(last_begin, device.begin_unix_ns);
    first_end = std::min(first_end, device.begin_unix_ns + device.duration_ns);
  }
  return last_begin <= first_end;
}

bool names_other_ranks(const std::vector<Report>& reports) {
  std::set<uint64_t> ranks;
  return std::ranges::all_of(reports, [&](const Report& report) {
    return report.process.rank && ranks.insert(*report.process.rank).second;
  });
}

}  // namespace

bool is_one_program(const std::vector<Report>& reports) {
  if (reports.size() < 2) return false;
  const bool has_one_name = is_same(reports, name_without_digits);
  if (names_other_ranks(reports)) {
    const auto world = [](const Report& report) { return report.process.world_size; };
    return has_one_name || (world(reports.front()) && is_same(reports, world));
  }
  return has_one_name && times_overlap(reports) &&
         is_within_factor_two(reports,
                              [](const Report& report) { return device_of(report).events; }) &&
         is_within_factor_two(reports, [](const Report& report) {
           return device_of(report).peak.requested.totals.requested_bytes;
         });
}

RankReport compare_ranks(const std::vector<Report>& reports) {
  const std::vector<uint64_t> numbers = numbers_of(reports);
  std::vector<size_t> order(reports.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return numbers[i]; });
  RankReport result;
  std::vector<const Report*> by_rank;
  for (const size_t i : order) {
    by_rank.push_back(&reports[i]);
    result.ranks.push_back(line_of(reports[i], numbers[i]));
    if (!result.world_size) result.world_size = reports[i].process.world_size;
  }
  find_worst(result);
  result.median = find_median(result.ranks);
  const Report& worst = *by_rank[result.worst];
  const Report& median = *by_rank[result.median];
  const auto compare = [&](Dimension by) {
    return largest_difference(amounts_by(worst, by), amounts_by(median, by), false);
  };
  result.category = compare(Dimension::kCategory);
  result.site = compare(Dimension::kUserFrame);
  result.step = largest_difference(amounts_by_step(worst), amounts_by_step(median), true);
  result.steps = align_steps(by_rank);
  return result;
}

}  // namespace vram::explain
