// size: one picture, whose parts share its layout.
#include "pictures/timeline.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "explain/waste/waste_index.hpp"
#include "pictures/axis.hpp"
#include "pictures/ink.hpp"
#include "pictures/legend.hpp"
#include "pictures/theme.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

namespace vram::pictures {
namespace {

using explain::DeviceView;

constexpr double kMargin = 16;
constexpr double kTitleSize = 15;
constexpr double kTextSize = 11.5;
constexpr double kBandText = 10.5;
constexpr double kGutter = 62;  // for the labels of bytes
constexpr double kStepBand = 16;
constexpr double kScopeBand = 15;
constexpr uint32_t kMaxScopeRows = 3;
constexpr double kMarkBand = 16;
constexpr double kAxisBand = 40;     // below the plot
constexpr double kWideLegend = 720;  // from this width on the legend is right of the plot
constexpr double kLegendWidth = 250;
constexpr double kMinLegend = 72;  // a low narrow picture has none
constexpr double kMinPlot = 60;
constexpr double kScopesHeight = 300;  // lower pictures have no scopes
constexpr double kMinBand = 1;         // narrower bands behind each other can't be seen

// What a picture's numbers may be at most: hostile recordings have any.
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

class TimelinePicture {
 public:
  TimelinePicture(const DeviceView& view, const pages::Groups& groups, const Window& window,
                  const Frame& frame)
      : view_(view),
        groups_(groups),
        frame_(frame),
        theme_(theme(frame.is_dark)),
        scale_(view, window) {}

  [[nodiscard]] Scene draw();

 private:
  void lay_out();
  void draw_title();
  void draw_grid();
  void draw_stack();
  void draw_lines();
  void draw_axis();
  void draw_steps();
  void draw_scopes();
  void draw_marks();
  void draw_legend();

  [[nodiscard]] std::vector<LegendRow> legend_rows() const;
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] std::optional<uint64_t> shown_limit() const;
  [[nodiscard]] uint32_t scope_rows() const;
  [[nodiscard]] double x_of(double value) const {
    const Window& window = scale_.window();
    return plot_.left +
           (value - window.from) / (window.to - window.from) * (plot_.right - plot_.left);
  }
  [[nodiscard]] double y_of(uint64_t bytes) const {
    return plot_.bottom -
           std::min(1.0, static_cast<double>(bytes) / axis_top_) * (plot_.bottom - plot_.top);
  }
  // The upper edge of values, from left to right.
  [[nodiscard]] std::vector<Point> edge(std::span<const uint64_t> values, size_t first = 0) const;
  void add_area(std::span<const uint64_t> tops, Colour colour, std::string hover);
  void add_band(double from, double to, double y, double height, Colour colour,
                const std::string& words);
  void text(Point at, std::string words, Colour colour, Anchor anchor = Anchor::kStart) {
    scene_.items.emplace_back(Label{at, std::move(words), kTextSize, colour, anchor});
  }

  const DeviceView& view_;
  const pages::Groups& groups_;
  const Frame& frame_;
  const Theme& theme_;
  AxisScale scale_;
  Columns columns_;
  Box plot_;
  double steps_top_ = 0;
  double scopes_top_ = 0;
  double axis_top_ = 1;       // bytes
  double legend_height_ = 0;  // below the plot
  Scene scene_;
};

uint32_t TimelinePicture::scope_rows() const {
  uint32_t rows = 0;
  if (frame_.height < kScopesHeight) return rows;
  for (const explain::Scope& scope : view_.scopes.all)
    rows = std::max(rows, std::min(scope.depth + 1, kMaxScopeRows));
  return rows;
}

void TimelinePicture::lay_out() {
  constexpr double kHeader = 54;
  const bool is_wide = frame_.width >= kWideLegend;
  plot_.left = kGutter;
  plot_.right = std::floor(frame_.width - kMargin - (is_wide ? kLegendWidth + kMargin : 0));
  columns_ = gather_columns(view_, groups_, scale_, static_cast<size_t>(plot_.right - plot_.left));
  uint64_t largest = 1;
  for (const auto* values : {&columns_.peak, &columns_.reserved, &columns_.used})
    for (const uint64_t each : *values) largest = std::max(largest, std::min(each, kMaxBytes));
  // The axis ends a little above the largest value, and not at its next round one.
  axis_top_ = static_cast<double>(largest) * 1.04;
  const double steps = view_.report.steps.steps.empty() ? 0 : kStepBand + 2;
  steps_top_ = kHeader;
  scopes_top_ = steps_top_ + steps;
  plot_.top = scopes_top_ + scope_rows() * kScopeBand + kMarkBand + 2;
  // The legend takes half of the room at most.
  const double min_bottom =
      plot_.top + std::max(kMinPlot, (frame_.height - kAxisBand - plot_.top) / 2);
  if (!is_wide) {
    const double room = frame_.height - kAxisBand - min_bottom;
    const double wanted = legend_height(legend_rows().size(), frame_.width - 2 * kMargin) + kMargin;
    legend_height_ = room < kMinLegend ? 0 : std::min(wanted, room);
  }
  plot_.bottom = std::max(min_bottom, frame_.height - kAxisBand - legend_height_);
  scene_.height = std::max(frame_.height, plot_.bottom + kAxisBand);
}

std::string TimelinePicture::summary() const {
  const size_t at = columns_.peak_column;
  std::string text =
      trf("peak {} requested, {} reserved, {}", format_bytes(columns_.peak[at]),
          format_bytes(*std::ranges::max_element(columns_.reserved)),
          show::when(view_.clock.kind(), view_.report,
                     {view_.clock.time_ns(columns_.peak_events[columns_.peak_column]),
                      columns_.peak_events[columns_.peak_column],
                      {}}));
  if (!view_.report.ooms.empty())
    text += " · " + (view_.report.oom_count == 1
                         ? std::string(tr("out of memory"))
                         : trf("out of memory {} times", view_.report.oom_count));
  return text;
}

void TimelinePicture::draw_title() {
  const double width = frame_.width - 2 * kMargin;
  scene_.title = title_of(frame_, view_);
  scene_.description = summary();
  scene_.items.emplace_back(Label{{kMargin, 25},
                                  fit_end(scene_.title, kTitleSize, width),
                                  kTitleSize,
                                  theme_.ink,
                                  Anchor::kStart,
                                  true});
  text({kMargin, 43}, fit_end(scene_.description, kTextSize, width), theme_.muted);
}

void TimelinePicture::draw_grid() {
  constexpr double kPerTick = 45;
  const int most = std::max(2, static_cast<int>((plot_.bottom - plot_.top) / kPerTick));
  for (const AxisTick& tick : byte_ticks(axis_top_, most)) {
    const double y = std::round(y_of(static_cast<uint64_t>(tick.value))) + 0.5;
    scene_.items.emplace_back(Path{{{plot_.left, y}, {plot_.right, y}}, theme_.grid});
    text({plot_.left - 8, y + 4}, tick.label, theme_.muted, Anchor::kEnd);
  }
  text({plot_.left - 8, plot_.bottom + 4}, "0", theme_.muted, Anchor::kEnd);
}

std::vector<Point> TimelinePicture::edge(std::span<const uint64_t> values, size_t first) const {
  std::vector<Point> points;
  for (size_t i = first; i < values.size(); ++i) {
    const double y = y_of(values[i]);
    if (!points.empty() && std::abs(points.back().y - y) < 0.05) continue;
    const double x = plot_.left + static_cast<double>(i);
    if (!points.empty()) points.push_back({x, points.back().y});
    points.push_back({x, y});
  }
  if (!points.empty()) points.push_back({plot_.right, points.back().y});
  return points;
}

void TimelinePicture::add_area(std::span<const uint64_t> tops, Colour colour, std::string hover) {
  std::vector<Point> outline = edge(tops);
  outline.push_back({plot_.right, plot_.bottom});
  outline.push_back({plot_.left, plot_.bottom});
  scene_.items.emplace_back(Area{std::move(outline), colour, 1, std::move(hover)});
}

// Each group covers the sum of those above it. Between the least and the most in a column, memory
// came and went: it is drawn lighter.
void TimelinePicture::draw_stack() {
  constexpr size_t kMaxHoverBytes = 200;
  std::vector<uint64_t> tops = columns_.peak;
  for (size_t group = columns_.groups.size(); group-- > 0;) {
    const ColumnGroup& each = columns_.groups[group];
    add_area(tops, colour_of(theme_, each.rank), limit_bytes(printable(each.name), kMaxHoverBytes));
    for (size_t i = 0; i < tops.size(); ++i) tops[i] -= each.bytes[i];
  }
  std::vector<Point> outline = edge(columns_.peak);
  std::vector<Point> lower = edge(columns_.low);
  outline.insert(outline.end(), lower.rbegin(), lower.rend());
  constexpr double kLighter = 0.32;
  if (columns_.low != columns_.peak)
    scene_.items.emplace_back(Area{std::move(outline), theme_.surface, kLighter});
}

void TimelinePicture::draw_lines() {
  scene_.items.emplace_back(Path{edge(columns_.reserved), theme_.ink, 1.5});
  const auto known = std::ranges::find_if(columns_.used, [](uint64_t each) { return each > 0; });
  if (known != columns_.used.end()) {
    const auto first = static_cast<size_t>(known - columns_.used.begin());
    scene_.items.emplace_back(Path{edge(columns_.used, first), theme_.used, 1.5});
  }
  const std::optional<uint64_t> limit = shown_limit();
  if (!limit) return;
  const double y = std::round(y_of(*limit)) + 0.5;
  scene_.items.emplace_back(Path{{{plot_.left, y}, {plot_.right, y}}, theme_.danger, 1, true});
}

// What the program could have, if it came close.
std::optional<uint64_t> TimelinePicture::shown_limit() const {
  std::optional<uint64_t> limit = view_.report.memory_bytes;
  if (!limit && !view_.report.ooms.empty()) limit = view_.report.ooms.front().limit_bytes;
  return limit && static_cast<double>(*limit) <= axis_top_ ? limit : std::nullopt;
}

void TimelinePicture::draw_axis() {
  const double y = plot_.bottom + 0.5;
  scene_.items.emplace_back(Path{{{plot_.left, y}, {plot_.right, y}}, theme_.muted});
  constexpr double kPerTick = 90;
  const int most = std::max(2, static_cast<int>((plot_.right - plot_.left) / kPerTick));
  double free_from = 0;
  for (const AxisTick& tick : axis_ticks(scale_.window(), most)) {
    const double x = std::min(std::round(x_of(tick.value)) + 0.5, plot_.right - 0.5);
    scene_.items.emplace_back(Path{{{x, plot_.bottom}, {x, plot_.bottom + 4}}, theme_.muted});
    const double half = text_width(tick.label, kTextSize) / 2;
    const double middle = std::min(x, frame_.width - 4 - half);
    if (middle - half < free_from) continue;
    free_from = middle + half + 8;
    text({middle, plot_.bottom + 17}, tick.label, theme_.muted, Anchor::kMiddle);
  }
  const bool is_time = scale_.window().axis == AxisKind::kTime;
  text({(plot_.left + plot_.right) / 2, plot_.bottom + 33},
       is_time ? tr("time since the recording began") : tr("number of events"), theme_.muted,
       Anchor::kMiddle);
}

void TimelinePicture::add_band(double from, double to, double y, double height, Colour colour,
                               const std::string& words) {
  const double left = std::max(from, plot_.left);
  const double right = std::min(to, plot_.right);
  const double width = std::max(right - left - 1, 0.6);
  scene_.items.emplace_back(rectangle({left, y}, width, height, colour));
  constexpr double kPadding = 4;
  const std::string shown = fit_end(words, kBandText, width - 2 * kPadding);
  if (shown.empty()) return;
  scene_.items.emplace_back(Label{
      {left + kPadding, y + height / 2 + 4}, shown, kBandText, theme_.ink, Anchor::kStart, true});
}

// Each step where there is room for its number, else every second, fifth, tenth ...
size_t step_stride(double band_width, double label_width) {
  for (size_t decade = 1;; decade *= 10)
    for (const size_t factor : {size_t{1}, size_t{2}, size_t{5}})
      if (static_cast<double>(factor * decade) * std::max(band_width, 0.001) >= label_width)
        return factor * decade;
}

void TimelinePicture::draw_steps() {
  const bool is_time = scale_.window().axis == AxisKind::kTime;
  const auto& steps = view_.report.steps.steps;
  std::vector<std::pair<double, double>> bands;
  std::vector<double> widths;
  for (const explain::Step& step : steps) {
    const double from =
        x_of(static_cast<double>(is_time ? step.begin_ns : static_cast<int64_t>(step.first_event)));
    const double to = x_of(is_time ? static_cast<double>(step.end_ns)
                                   : static_cast<double>(step.first_event + step.event_count));
    bands.emplace_back(from, to);
    if (to > plot_.left && from < plot_.right) widths.push_back(to - from);
  }
  const double label_width = text_width(std::to_string(steps.size()), kBandText) + 8;
  const size_t stride = widths.empty() ? 1 : step_stride(median_of(std::move(widths)), label_width);
  double drawn = plot_.left;
  for (size_t i = 0; i < bands.size(); ++i) {
    const auto [from, to] = bands[i];
    if (to < drawn + kMinBand || from > plot_.right) continue;
    drawn = to;
    add_band(from, to, steps_top_, kStepBand, theme_.steps.at(i % 2), "");
  }
  // Numbers may reach over narrow bands, so they come last.
  double free_from = plot_.left;
  for (size_t i = 0; i < bands.size(); ++i) {
    const auto [from, to] = bands[i];
    const double width = text_width(trf("step {}", i), kBandText) + 8;
    const bool is_wide = std::min(to, plot_.right) - std::max(from, plot_.left) >= width;
    if ((i % stride != 0 && !is_wide) || to <= plot_.left) continue;
    const double x = std::max(from, plot_.left) + 4;
    const std::string words = is_wide ? trf("step {}", i) : std::to_string(i);
    const double end = x + text_width(words, kBandText);
    if (x < free_from || end > plot_.right) continue;
    free_from = end + 3;
    scene_.items.emplace_back(
        Label{{x, steps_top_ + kStepBand / 2 + 4}, words, kBandText, theme_.ink});
  }
}

void TimelinePicture::draw_scopes() {
  const bool is_time = scale_.window().axis == AxisKind::kTime;
  const uint32_t rows = scope_rows();
  std::array<double, kMaxScopeRows> drawn{};
  drawn.fill(plot_.left);
  for (const explain::Scope& scope : view_.scopes.all) {
    if (scope.depth >= rows) continue;
    const auto since = [&](int64_t time_ns) {
      return static_cast<double>(nanoseconds_between(view_.clock.origin_unix_ns(), time_ns));
    };
    const double from =
        x_of(is_time ? since(scope.begin_ns) : static_cast<double>(scope.first_event));
    const double to = x_of(is_time ? since(scope.end_ns) : static_cast<double>(scope.end_event));
    if (to < drawn.at(scope.depth) + kMinBand || from > plot_.right) continue;
    drawn.at(scope.depth) = to;
    const std::string_view name = view_.trace.tables.strings[scope.name];
    add_band(from, to, scopes_top_ + scope.depth * kScopeBand, kScopeBand - 1,
             colour_of_name(theme_, name), limit_bytes(name, trace::kMaxNameBytes));
  }
}

struct Mark {
  double x = 0;
  std::string words;
  Colour colour;
};

// Where a call released the unused segments: the first event of each run of them.
std::vector<int64_t> emptied_caches(const DeviceView& view) {
  explain::WasteIndex index(view.sources(), view.report);
  std::vector<int64_t> found;
  const auto events = view.trace.events_of(view.device);
  bool is_running = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const bool is_release = events[i].kind == trace::EventKind::kSegmentFree ||
                            events[i].kind == trace::EventKind::kSegmentUnmap;
    const bool is_emptying =
        is_release && events[i].stack != 0 && index.facts(events[i].stack).empties_cache;
    if (is_emptying && !is_running) found.push_back(static_cast<int64_t>(i));
    is_running = is_emptying;
  }
  return found;
}

void TimelinePicture::draw_marks() {
  std::vector<Mark> marks;
  const auto add = [&](int64_t event, const char* words, Colour colour) {
    const double x = x_of(scale_.of_event(event));
    if (x >= plot_.left - 1 && x <= plot_.right + 1) marks.push_back({x, words, colour});
  };
  // By importance: a mark without room for its words has none.
  for (const explain::Oom& oom : view_.report.ooms)
    add(oom.moment.event, tr("out of memory"), theme_.danger);
  add(columns_.peak_events[columns_.peak_column], tr("peak"), theme_.ink);
  for (const int64_t event : emptied_caches(view_)) add(event, tr("cache emptied"), theme_.muted);
  std::vector<std::pair<double, double>> taken;
  const auto is_free = [&](double from, double to) {
    return std::ranges::none_of(
        taken, [&](const auto& each) { return from < each.second && to > each.first; });
  };
  const double tip = plot_.top - 1;
  std::vector<const Mark*> drawn;
  for (const Mark& mark : marks) {
    if (!is_free(mark.x - 2, mark.x + 2)) continue;
    scene_.items.emplace_back(
        Area{{{mark.x, tip}, {mark.x - 4.5, tip - 8}, {mark.x + 4.5, tip - 8}}, mark.colour});
    taken.emplace_back(mark.x - 6, mark.x + 6);
    drawn.push_back(&mark);
  }
  for (const Mark* mark : drawn) {
    const double width = text_width(mark->words, kTextSize);
    const std::array places = {mark->x + 8, mark->x - 8 - width};  // right of the mark, or left
    const auto* const from = std::ranges::find_if(places, [&](double each) {
      return each >= plot_.left && each + width <= plot_.right && is_free(each, each + width);
    });
    if (from == places.end()) continue;
    taken.emplace_back(*from - 6, *from + width + 6);
    text({*from, tip - 1}, mark->words, mark->colour);
  }
}

std::vector<LegendRow> TimelinePicture::legend_rows() const {
  const size_t at = columns_.peak_column;
  std::vector<LegendRow> rows;
  if (!columns_.used.empty() && columns_.used[at] > 0)
    rows.push_back({tr("device, used by all processes"), columns_.used[at], theme_.used, true});
  rows.push_back({tr("reserved"), columns_.reserved[at], theme_.ink, true});
  if (const auto limit = shown_limit()) rows.push_back({tr("limit"), *limit, theme_.danger, true});
  for (auto each = columns_.groups.rbegin(); each != columns_.groups.rend(); ++each)
    rows.push_back({group_text(groups_.id, each->name), each->bytes[at],
                    colour_of(theme_, each->rank), false});
  return rows;
}

void TimelinePicture::draw_legend() {
  const bool is_wide = frame_.width >= kWideLegend;
  if (!is_wide && legend_height_ == 0) return;
  const Point corner = is_wide ? Point{plot_.right + 2 * kMargin, steps_top_}
                               : Point{kMargin, plot_.bottom + kAxisBand + 6};
  const double width = is_wide ? frame_.width - kMargin - corner.x : frame_.width - 2 * kMargin;
  const std::string head = trf("at the peak, {}", group_title(groups_.id));
  pictures::draw_legend({corner, width, is_wide ? frame_.height - kMargin : scene_.height}, head,
                        legend_rows(), theme_, scene_);
}

Scene TimelinePicture::draw() {
  lay_out();
  scene_.width = frame_.width;
  scene_.background = theme_.surface;
  draw_title();
  draw_grid();
  draw_stack();
  draw_lines();
  draw_axis();
  draw_steps();
  draw_scopes();
  draw_marks();
  draw_legend();
  return std::move(scene_);
}

}  // namespace

std::string title_of(const Frame& frame, const DeviceView& view) {
  if (!frame.title.empty()) return frame.title;
  const std::string name = std::filesystem::path(view.trace.origin.path).filename().string();
  return fmt::format("{} · {}", printable(name), show::device_name(view.report));
}

Scene draw_timeline(const DeviceView& view, const pages::Groups& groups, const Window& window,
                    const Frame& frame) {
  return TimelinePicture(view, groups, window, frame).draw();
}

}  // namespace vram::pictures
