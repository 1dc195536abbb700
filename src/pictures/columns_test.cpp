#include "pictures/columns.hpp"

#include "explain/explain.hpp"
#include "explain/testing/zoo.hpp"
#include "pages/overview.hpp"
#include "pictures/axis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vram::pictures {
namespace {

using explain::MomentKind;
using explain::MomentRequest;
using ::testing::HasSubstr;

// A training run with stacks, of as many steps.
struct Explained {
  trace::Trace trace;
  explain::Report report;
  explain::DeviceView view;

  explicit Explained(uint32_t steps, bool has_stacks = true)
      : trace(explain::testing::TrainingRun({.steps = steps,
                                             .annotated = true,
                                             .leak_bytes = 1 << 20,
                                             .has_stacks = has_stacks})
                  .record()
                  .trace),
        report(explain::explain(trace).value()),
        view(trace, report, 0) {}
};

Window window_of(const Explained& of, const WindowRequest& request) {
  return find_window(of.view, request).value();
}

TEST(Columns, HaveThePeakOfTheReportWhateverTheirNumber) {
  const Explained run(10);
  const explain::Moment& peak = run.report.devices[0].peak.requested;
  for (const AxisKind axis : {AxisKind::kTime, AxisKind::kEvent}) {
    const AxisScale scale(run.view, window_of(run, {.axis = axis}));
    for (const pages::Groups& groups : pages::find_groups(run.view)) {
      for (const size_t count : {1U, 7U, 500U, 100'000U}) {
        const Columns columns = gather_columns(run.view, groups, scale, count);
        EXPECT_EQ(columns.peak[columns.peak_column], peak.totals.requested_bytes);
        EXPECT_EQ(columns.peak_events[columns.peak_column], peak.event);
        EXPECT_TRUE(std::ranges::is_sorted(columns.peak_events));
        EXPECT_TRUE(std::ranges::is_sorted(columns.first_events));
        EXPECT_EQ(std::ranges::max(columns.reserved),
                  run.report.devices[0].peak.reserved.totals.reserved_bytes);
      }
    }
  }
}

TEST(Columns, AreStacksOfGroupsThatAddUp) {
  const Explained run(10);
  const AxisScale scale(run.view, window_of(run, {}));
  for (const pages::Groups& groups : pages::find_groups(run.view)) {
    const Columns columns = gather_columns(run.view, groups, scale, 640);
    EXPECT_LE(columns.groups.size(), pages::kShownGroups + 1);
    for (size_t i = 0; i < columns.peak.size(); ++i) {
      uint64_t sum = 0;
      for (const ColumnGroup& group : columns.groups) sum += group.bytes[i];
      ASSERT_EQ(sum, columns.peak[i]) << groups.id << " in column " << i;
      ASSERT_LE(columns.low[i], columns.peak[i]);
    }
  }
}

// One column for each state: exactly the totals after each event.
TEST(Columns, OfSingleEventsAreTheTotalsAfterThem) {
  const Explained run(3);
  const uint64_t events = run.view.device.event_count;
  const AxisScale scale(run.view, window_of(run, {.axis = AxisKind::kEvent}));
  const auto groups = pages::find_groups(run.view, "stream");
  const Columns columns = gather_columns(run.view, groups, scale, events);
  explain::TotalsWalker walker(run.trace.events_of(run.view.device), run.view.history);
  for (uint64_t position = 0; position + 1 < events; ++position) {
    EXPECT_EQ(columns.peak[position], walker.totals().requested_bytes) << position;
    EXPECT_EQ(columns.reserved[position], walker.totals().reserved_bytes) << position;
    (void)walker.step();
  }
}

TEST(Windows, BeginAndEndWithSteps) {
  const Explained run(10);
  const auto& steps = run.report.devices[0].steps.steps;
  ASSERT_GE(steps.size(), 5U);
  const WindowRequest request{.axis = AxisKind::kEvent,
                              .from = MomentRequest{MomentKind::kStep, 2},
                              .to = MomentRequest{MomentKind::kStep, 3}};
  const Window window = window_of(run, request);
  EXPECT_EQ(window.from, static_cast<double>(steps[2].first_event));
  EXPECT_EQ(window.to, static_cast<double>(steps[3].first_event + steps[3].event_count));
  const Columns columns = gather_columns(run.view, pages::find_groups(run.view, "stream"),
                                         AxisScale(run.view, window), 300);
  EXPECT_EQ(columns.peak[columns.peak_column],
            std::max(steps[2].peak_requested_bytes, steps[3].peak_requested_bytes));
}

std::string error_of(const Explained& run, const WindowRequest& request) {
  const auto window = find_window(run.view, request);
  return window ? "none" : window.error().message;
}

TEST(Windows, SayWhichOptionNamesNoMoment) {
  const Explained run(3);
  const MomentRequest far{MomentKind::kStep, 99};
  EXPECT_THAT(error_of(run, {.from = far}), HasSubstr("--from step:99"));
  EXPECT_THAT(error_of(run, {.to = far}), HasSubstr("--to step:99"));
  EXPECT_THAT(error_of(run, {.from = MomentRequest{MomentKind::kEvent, 1'000'000}}),
              HasSubstr("--from event:1000000: the recording has events 0 to "));
  EXPECT_THAT(error_of(run, {.from = MomentRequest{MomentKind::kOom, 0}}), HasSubstr("oom:0"));
  EXPECT_THAT(error_of(run, {.from = MomentRequest{MomentKind::kStep, 2},
                             .to = MomentRequest{MomentKind::kStep, 0}}),
              HasSubstr("--from and --to"));
}

std::vector<std::string> labels_of(const Window& window, int most) {
  std::vector<std::string> labels;
  for (const AxisTick& tick : axis_ticks(window, most)) labels.push_back(tick.label);
  return labels;
}

TEST(Axes, HaveRoundLabelsThatDiffer) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels_of({AxisKind::kTime, 0, 2e9}, 5),
            (Labels{"0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"}));
  EXPECT_EQ(labels_of({AxisKind::kTime, 1.001e9, 1.003e9}, 3),
            (Labels{"1.001 s", "1.002 s", "1.003 s"}));
  EXPECT_EQ(labels_of({AxisKind::kEvent, 0, 2400}, 4), (Labels{"0", "1,000", "2,000"}));
  EXPECT_EQ(labels_of({AxisKind::kTime, 0, 0.5}, 4).size(), 1U);
}

}  // namespace
}  // namespace vram::pictures
