#include "pictures/columns.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/time.hpp"
#include "pages/overview.hpp"
#include "trace/figures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace vram::pictures {
namespace {

using explain::DeviceView;
using explain::MomentKind;
using explain::MomentRequest;

// What a moment of --from or --to is on the axis.
Result<double> value_of(const DeviceView& view, const AxisScale& scale, const MomentRequest& moment,
                        bool is_end) {
  const explain::DeviceReport& report = view.report;
  const bool is_time = scale.window().axis == AxisKind::kTime;
  switch (moment.kind) {
    case MomentKind::kTime:
      return scale.of_time(static_cast<int64_t>(
          std::min<uint64_t>(moment.value, std::numeric_limits<int64_t>::max())));
    case MomentKind::kEvent:
      if (moment.value >= view.device.event_count)
        return fail(Code::kNotFound, "event:{}: the recording has events 0 to {}", moment.value,
                    view.device.event_count - 1);
      return scale.of_event(static_cast<int64_t>(moment.value));
    case MomentKind::kPeak:
      return scale.of_event(report.peak.requested.event);
    case MomentKind::kOom:
      if (moment.value >= report.ooms.size())
        return fail(Code::kNotFound, "oom:{}: the report explains {} failed requests", moment.value,
                    report.ooms.size());
      return scale.of_event(report.ooms[moment.value].moment.event);
    case MomentKind::kStep:
      break;
  }
  const auto& steps = report.steps.steps;
  if (moment.value >= steps.size())
    return fail(Code::kNotFound, "step:{}: the recording has {} steps", moment.value, steps.size());
  const explain::Step& step = steps[moment.value];
  if (is_time) return static_cast<double>(is_end ? step.end_ns : step.begin_ns);
  return static_cast<double>(step.first_event + (is_end ? step.event_count : 0));
}

Window whole(const DeviceView& view, AxisKind axis) {
  const Window any{axis, 0, 1};
  const AxisScale scale(view, any);
  return {axis, 0, std::max(1.0, scale.of_position(view.device.event_count))};
}

}  // namespace

Result<Window> find_window(const DeviceView& view, const WindowRequest& request) {
  const bool has_time = view.clock.kind() == explain::Clock::kTime;
  const AxisKind axis = request.axis.value_or(has_time ? AxisKind::kTime : AxisKind::kEvent);
  if (axis == AxisKind::kTime && !has_time)
    return fail(Code::kBadInput, "--axis time: the recording has no clock; use --axis event");
  Window window = whole(view, axis);
  const AxisScale scale(view, window);
  const auto named = [](std::string_view option) {
    return [option](Error error) {
      error.message = fmt::format("{} {}", option, error.message);
      return error;
    };
  };
  const double end = window.to;
  if (request.from) {
    VRAM_TRY_ASSIGN(window.from,
                    value_of(view, scale, *request.from, false).map_error(named("--from")));
  }
  if (request.to) {
    VRAM_TRY_ASSIGN(window.to, value_of(view, scale, *request.to, true).map_error(named("--to")));
  }
  window.to = std::min(window.to, end);
  if (!(window.to > window.from))
    return fail(Code::kBadInput,
                "--from and --to: expected a part of the recording, found that it ends before "
                "that part begins, or that the part is empty");
  return window;
}

AxisScale::AxisScale(const DeviceView& view, const Window& window) : window_(window) {
  if (view.clock.kind() != explain::Clock::kTime) return;
  times_.reserve(view.device.event_count);
  int64_t latest = 0;
  for (uint64_t event = 0; event < view.device.event_count; ++event) {
    latest = std::max(latest, view.clock.time_ns(static_cast<int64_t>(event)));
    times_.push_back(latest);
  }
}

double AxisScale::of_position(uint64_t position) const {
  if (window_.axis == AxisKind::kEvent) return static_cast<double>(position);
  if (times_.empty()) return 0;
  const uint64_t event = position == 0 ? 0 : std::min<uint64_t>(position, times_.size()) - 1;
  return static_cast<double>(times_[event]);
}

double AxisScale::of_time(int64_t time_ns) const {
  if (window_.axis == AxisKind::kTime) return static_cast<double>(time_ns);
  return static_cast<double>(std::ranges::upper_bound(times_, time_ns) - times_.begin());
}

namespace {

class Gatherer {
 public:
  Gatherer(const DeviceView& view, const AxisScale& scale, size_t count)
      : view_(view), scale_(scale), count_(count) {
    columns_.peak_events.resize(count);
    columns_.first_events.resize(count);
    columns_.peak.resize(count);
    columns_.low.resize(count, std::numeric_limits<uint64_t>::max());
    columns_.reserved.resize(count);
  }

  void add_totals();
  void add_groups(const pages::Groups& groups);
  void add_used();
  [[nodiscard]] Columns take() { return std::move(columns_); }

 private:
  // In columns from the window's left edge.
  [[nodiscard]] double column(double value) const {
    const Window& window = scale_.window();
    return (value - window.from) / (window.to - window.from) * static_cast<double>(count_);
  }
  // The columns in which a state is seen that lasts from one value to another.
  template <typename Each>
  void for_each_column(double from, double to, Each&& each) const {
    constexpr double kRounding = 1e-6;
    const double first = std::floor(column(from) + kRounding);
    const double end = std::max(first + 1, std::ceil(column(to) - kRounding));
    const auto count = static_cast<double>(count_);
    if (end <= 0 || first > count) return;
    // What happens at the right edge is in the last column.
    const auto begin = static_cast<size_t>(std::clamp(first, 0.0, count - 1));
    for (size_t i = begin; i < static_cast<size_t>(std::clamp(end, 1.0, count)); ++i) each(i);
  }

  const DeviceView& view_;
  const AxisScale& scale_;
  size_t count_;
  Columns columns_;
};

void Gatherer::add_totals() {
  explain::TotalsWalker walker(view_.trace.events_of(view_.device), view_.history);
  std::vector<bool> is_seen(count_);
  for (uint64_t position = 0; position <= view_.device.event_count; ++position) {
    if (position > 0) (void)walker.step();
    const explain::Totals& now = walker.totals();
    // Other devices may have events before this one's first.
    const double begin = position == 0 ? scale_.window().from : scale_.of_position(position);
    const double end = position == view_.device.event_count ? scale_.window().to
                                                            : scale_.of_position(position + 1);
    if (begin > scale_.window().to) break;
    const int64_t event = static_cast<int64_t>(position) - 1;
    columns_.last_event = event;
    for_each_column(begin, end, [&](size_t i) {
      if (!is_seen[i]) columns_.first_events[i] = event;
      if (!is_seen[i] || now.requested_bytes > columns_.peak[i]) {
        columns_.peak[i] = now.requested_bytes;
        columns_.peak_events[i] = event;
      }
      is_seen[i] = true;
      columns_.low[i] = std::min(columns_.low[i], now.requested_bytes);
      columns_.reserved[i] = std::max(columns_.reserved[i], now.reserved_bytes);
    });
  }
  const auto largest = std::ranges::max_element(columns_.peak);
  columns_.peak_column = static_cast<size_t>(largest - columns_.peak.begin());
}

void Gatherer::add_groups(const pages::Groups& groups) {
  const size_t shown = std::min(groups.names.size(), pages::kShownGroups);
  std::vector<uint64_t> now(groups.names.size());
  std::vector<std::vector<uint64_t>> bytes(shown, std::vector<uint64_t>(count_));
  std::vector<uint64_t> rest = columns_.peak;
  size_t next = 0;
  pages::walk_blocks(
      view_.history,
      [&](uint32_t id, bool is_added) {
        const uint64_t change = view_.history.lifetimes[id].requested_bytes;
        now[groups.of_lifetime[id]] += is_added ? change : -change;
      },
      [&](int64_t event) {
        for (; next < count_ && columns_.peak_events[next] == event; ++next) {
          for (size_t group = 0; group < shown; ++group) {
            bytes[group][next] = now[group];
            rest[next] -= now[group];
          }
        }
      });
  const auto has_any = [](const std::vector<uint64_t>& values) {
    return std::ranges::any_of(values, [](uint64_t each) { return each > 0; });
  };
  for (size_t group = 0; group < shown; ++group)
    if (has_any(bytes[group]))
      columns_.groups.push_back({groups.names[group], group, std::move(bytes[group])});
  if (has_any(rest)) {
    const size_t others = groups.names.size() - shown;
    columns_.groups.push_back({counted(others, "other"), pages::kShownGroups, std::move(rest)});
  }
}

// A reading holds until the next one. With the driver's own memory, as the report has it.
void Gatherer::add_used() {
  namespace figures = trace::figures;
  if (view_.device.kind != trace::DeviceKind::kGpu) return;
  std::vector<std::pair<int64_t, uint64_t>> readings;
  uint64_t driver = 0;
  for (const trace::Figure& figure : view_.trace.figures) {
    if (figure.device != view_.device.ordinal || figure.value == figures::kUnknown) continue;
    const std::string_view name = view_.trace.tables.strings[figure.name];
    if (name == figures::kDriver) driver = figure.value;
    if (name != figures::kUsed) continue;
    const int64_t time_ns = nanoseconds_between(view_.clock.origin_unix_ns(), figure.time_ns);
    readings.emplace_back(time_ns, figure.value + driver);
  }
  if (readings.empty()) return;
  std::ranges::stable_sort(readings, {}, &std::pair<int64_t, uint64_t>::first);
  columns_.used.resize(count_);
  for (size_t i = 0; i < readings.size(); ++i) {
    const bool is_last = i + 1 == readings.size();
    const double begin = scale_.of_time(readings[i].first);
    const double end = is_last ? scale_.window().to : scale_.of_time(readings[i + 1].first);
    for_each_column(begin, end, [&](size_t column) {
      columns_.used[column] = std::max(columns_.used[column], readings[i].second);
    });
  }
}

}  // namespace

Columns gather_totals(const DeviceView& view, const AxisScale& scale, size_t count) {
  Gatherer gatherer(view, scale, count);
  gatherer.add_totals();
  return gatherer.take();
}

Columns gather_columns(const DeviceView& view, const pages::Groups& groups, const AxisScale& scale,
                       size_t count) {
  Gatherer gatherer(view, scale, count);
  gatherer.add_totals();
  gatherer.add_groups(groups);
  gatherer.add_used();
  return gatherer.take();
}

}  // namespace vram::pictures
