#include "explain/rest/marks.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

struct Amount {
  uint64_t count = 0;
  uint64_t bytes = 0;
  int64_t duration_ns = 0;

  void add(const trace::Mark& mark) {
    ++count;
    bytes += mark.size_bytes;
    duration_ns += std::min(mark.duration_ns, INT64_MAX - duration_ns);
  }
};

// The amounts of one total in each step.
using StepAmounts = std::map<size_t, Amount>;

// The step that a time since the recording's first event is in.
std::optional<size_t> step_at(const Steps& steps, int64_t time_ns) {
  const auto after = std::ranges::upper_bound(steps.steps, time_ns, {}, &Step::begin_ns);
  if (after == steps.steps.begin()) return std::nullopt;
  const auto index = static_cast<size_t>(after - steps.steps.begin()) - 1;
  return time_ns <= steps.steps[index].end_ns ? std::optional(index) : std::nullopt;
}

template <typename Value>
Value median_of(const StepAmounts& amounts, size_t first, size_t count, Value Amount::* member) {
  std::vector<Value> values(count, 0);
  for (const auto& [step, amount] : amounts)
    if (step >= first) values[step - first] = amount.*member;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void add_medians(const StepAmounts& amounts, const Steps& steps, MarkTotal& total) {
  const size_t first = std::min<size_t>(steps.warmup_count, steps.steps.size());
  const size_t count = steps.steps.size() - first;
  if (count == 0) return;
  total.step_count = median_of(amounts, first, count, &Amount::count);
  total.step_bytes = median_of(amounts, first, count, &Amount::bytes);
  total.step_duration_ns = median_of(amounts, first, count, &Amount::duration_ns);
}

using Key = std::tuple<trace::MarkKind, trace::StringId, trace::StringId>;

Key key_of(const trace::Mark& mark) { return {mark.kind, mark.name, mark.group}; }

int64_t difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

struct Group {
  Key key;
  Amount all;
  StepAmounts steps;
};

std::vector<const trace::Mark*> marks_of(const trace::Trace& trace,
                                         const trace::DeviceTrace& device) {
  std::vector<const trace::Mark*> marks;
  if (device.kind != trace::DeviceKind::kGpu) return marks;
  for (const trace::Mark& mark : trace.marks)
    if (mark.device == device.ordinal || mark.device == trace::kNoDevice) marks.push_back(&mark);
  std::ranges::stable_sort(marks, {}, &trace::Mark::time_ns);
  return marks;
}

// Most bytes first.
std::vector<Group> grouped(const std::vector<const trace::Mark*>& marks, const Steps& steps,
                           int64_t origin_unix_ns) {
  std::map<Key, size_t> places;
  std::vector<Group> groups;
  for (const trace::Mark* mark : marks) {
    const auto [place, is_new] = places.try_emplace(key_of(*mark), groups.size());
    if (is_new) groups.push_back({.key = place->first, .all = {}, .steps = {}});
    Group& group = groups[place->second];
    group.all.add(*mark);
    if (const auto step = step_at(steps, difference(mark->time_ns, origin_unix_ns)))
      group.steps[*step].add(*mark);
  }
  std::ranges::stable_sort(groups, std::ranges::greater(),
                           [](const Group& group) { return group.all.bytes; });
  return groups;
}

MarkTotal total_of(const Group& group, const trace::StringTable& texts, const Steps& steps) {
  const auto text = [&](trace::StringId id) {
    return std::string(texts[id].substr(0, trace::kMaxNameBytes));
  };
  const auto& [kind, name, group_name] = group.key;
  MarkTotal total = {.kind = kind,
                     .name = text(name),
                     .group = text(group_name),
                     .count = group.all.count,
                     .bytes = group.all.bytes,
                     .duration_ns = group.all.duration_ns};
  add_medians(group.steps, steps, total);
  return total;
}

}  // namespace

Marks find_marks(const trace::Trace& trace, const trace::DeviceTrace& device, const Steps& steps,
                 int64_t origin_unix_ns) {
  const auto marks = marks_of(trace, device);
  std::map<Key, size_t> places;
  Marks found;
  found.count = marks.size();
  for (const Group& group : grouped(marks, steps, origin_unix_ns)) {
    if (found.totals.size() == kMaxMarkTotals) break;
    places[group.key] = found.totals.size();
    found.totals.push_back(total_of(group, trace.tables.strings, steps));
  }
  for (const trace::Mark* mark : marks) {
    if (found.lines.size() == kMaxMarkLines) break;
    const auto place = places.find(key_of(*mark));
    if (place == places.end()) continue;
    const int64_t time = difference(mark->time_ns, origin_unix_ns);
    const auto step = step_at(steps, time);
    found.lines.push_back({.time_ns = time,
                           .total = place->second,
                           .bytes = mark->size_bytes,
                           .duration_ns = mark->duration_ns,
                           .step = step ? std::optional<uint64_t>(*step) : std::nullopt});
  }
  return found;
}

}  // namespace vram::explain
