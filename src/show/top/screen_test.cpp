// The screens under tests/data/top were read line by line before they became the expectation.
#include "show/top/screen.hpp"

#include "base/testing/hostile_text.hpp"
#include "base/testing/paths.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "show/testing/lines.hpp"
#include "show/testing/sample_snapshot.hpp"
#include "show/top/devices.hpp"
#include "show/top/dialogs.hpp"
#include "show/top/keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace vram::show::top {
namespace {

using ::testing::HasSubstr;
using testing::lines_of;
using ::testing::Not;

watch::Sampled sampled(watch::Snapshot snapshot, uint64_t number = 1) {
  watch::Sampled result;
  result.snapshot = std::move(snapshot);
  result.number = number;
  result.begin_ns = 1'000 * kSecondNs + number * kSecondNs;
  result.sample_duration_ns = 2'000'000;
  result.period_ns = number > 1 ? kSecondNs : 0;
  return result;
}

// A busy machine seen for half a minute: memory and load of GPU 0 rise from nothing.
struct MemoryTimeline {
  History history;
  watch::Sampled last;
  Clock clock;
};

MemoryTimeline half_a_minute(const watch::Snapshot& end) {
  MemoryTimeline course;
  for (uint64_t i = 1; i <= 30; ++i) {
    watch::Snapshot snapshot = end;
    if (!snapshot.devices.empty()) {
      gpu::DeviceSample& sample = snapshot.devices[0].sample;
      if (sample.memory.used_bytes) *sample.memory.used_bytes = *sample.memory.used_bytes / 30 * i;
      if (sample.busy_percent)
        sample.busy_percent = static_cast<uint32_t>(*sample.busy_percent * i / 30);
    }
    course.history.add(sampled(std::move(snapshot), i));
  }
  course.last = sampled(end, 30);
  course.clock.now_ns = course.last.begin_ns + course.last.sample_duration_ns;
  return course;
}

std::string screen(const watch::Snapshot& snapshot, Size size, const TopState& state = {},
                   bool unicode = true) {
  const MemoryTimeline course = half_a_minute(snapshot);
  return draw(state, course.history, &course.last, course.clock, {size, unicode, false}).text();
}

std::string expected(const std::string& name, Size size) {
  std::ifstream file(data_path(fmt::format("top/{}_{}x{}.txt", name, size.columns, size.rows)));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

constexpr std::array kSizes = {Size{80, 24}, Size{120, 40}, Size{200, 50}};

TEST(TopScreen, LooksAsExpected) {
  for (const Size size : kSizes) {
    EXPECT_EQ(screen(testing::sample_snapshot(), size), expected("busy", size));
    EXPECT_EQ(screen(testing::awkward_snapshot(), size), expected("awkward", size));
  }
  TopState allocators;
  allocators.shows_allocators = true;
  EXPECT_EQ(screen(testing::sample_snapshot(), {120, 40}, allocators),
            expected("allocators", {120, 40}));
}

// A refused filter says so below the words, which stay to be corrected.
TEST(TopScreen, ARefusedFilterSaysWhatWasExpected) {
  TopState state;
  open_filter(state);
  state.dialog.entry = "mem>x";
  state.show_message(Filter::parse("mem>x").error().message, Style::kBad);
  const auto lines = lines_of(screen(testing::sample_snapshot(), {100, 30}, state));
  EXPECT_THAT(lines[27], HasSubstr("filter: mem>x"));
  EXPECT_THAT(lines[28], HasSubstr("filter: mem>x: expected"));
  EXPECT_THAT(lines[28], HasSubstr("found 'x'"));
}

std::vector<TopState> all_states() {
  std::vector<TopState> states(11);
  states[1].order.is_tree = true;
  states[2].shows_allocators = true;
  states[3].plot = PlotKind::kPower;
  states[4].device = 1;
  states[5].show_message(vram::testing::hostile_text(), Style::kBad);
  open_help(states[6]);
  open_setup(states[7]);
  open_sort(states[8]);
  open_filter(states[9]);
  states[9].dialog.entry = vram::testing::hostile_text();
  states[10].dialog = {
      DialogKind::kSignal, 1, {"no", "yes"}, {{{1, 1}, vram::testing::hostile_text()}}, ""};
  return states;
}

// Whatever the size and the texts: all of it on the grid, nothing that a terminal would obey.
TEST(TopScreen, FillsAnySizeWithNothingButHarmlessText) {
  const std::array snapshots = {testing::sample_snapshot(), testing::unknown_snapshot(),
                                testing::awkward_snapshot(), watch::Snapshot()};
  for (const watch::Snapshot& snapshot : snapshots) {
    const MemoryTimeline course = half_a_minute(snapshot);
    for (const TopState& state : all_states()) {
      for (const Size size :
           {Size{0, 0}, Size{1, 1}, Size{2, 3}, Size{7, 9}, Size{20, 5}, Size{40, 10},
            Size{60, 100}, Size{80, 24}, Size{131, 37}, Size{300, 7}, Size{90, 1}}) {
        for (const bool unicode : {true, false}) {
          const Grid grid =
              draw(state, course.history, &course.last, course.clock, {size, unicode, false});
          ASSERT_EQ(grid.size(), size);
          const std::string text = grid.text();
          ASSERT_EQ(lines_of(text).size(), static_cast<size_t>(size.rows));
          for (const std::string& line : lines_of(text)) {
            ASSERT_LE(display_width(line), size.columns);
            ASSERT_EQ(line, printable(line));
            for (const char c : line) ASSERT_TRUE(unicode || static_cast<unsigned char>(c) < 0x80);
          }
        }
      }
    }
  }
}

// What the table of devices shows fits, from a narrow terminal on.
TEST(TopScreen, NoFigureOfADeviceIsCut) {
  for (const watch::Snapshot& snapshot :
       {testing::sample_snapshot(), testing::awkward_snapshot()}) {
    const MemoryTimeline course = half_a_minute(snapshot);
    for (int columns = 76; columns <= 250; ++columns) {
      for (const DeviceLine& line : device_lines(snapshot, course.history, {}, {columns, 40})) {
        if (line.kind == DeviceLineKind::kDevice) {
          ASSERT_LT(line.line.width(), columns) << line.line.text(false);
        }
      }
    }
  }
}

TEST(TopScreen, SaysHowOldTheDataIs) {
  MemoryTimeline course = half_a_minute(testing::sample_snapshot());
  const auto head = [&](const TopState& state) {
    return lines_of(
        draw(state, course.history, &course.last, course.clock, {{120, 30}, true, false})
            .text())[0];
  };
  TopState state;
  EXPECT_THAT(head(state), HasSubstr("every 1 s"));
  course.last.sample_duration_ns = kSecondNs * 3 / 2;
  course.last.period_ns = kSecondNs * 3 / 2;
  EXPECT_THAT(head(state), HasSubstr("every 1.5 s instead of 1 s"));
  course.clock.now_ns = course.last.begin_ns + course.last.sample_duration_ns + 12 * kSecondNs;
  EXPECT_THAT(head(state), HasSubstr("data 12 s old"));
  course.clock.overdue_ns = 10 * kSecondNs;
  EXPECT_THAT(head(state), HasSubstr("driver call hangs for 11 s, data 12 s old"));
  course.clock.overdue_ns = 0;
  state.is_paused = true;
  EXPECT_THAT(head(state), HasSubstr("paused, data 12 s old"));
}

TEST(TopScreen, BeforeTheFirstLookItSaysSo) {
  const std::string text = draw({}, {}, nullptr, {}, {{80, 24}, true, false}).text();
  EXPECT_THAT(text, HasSubstr("taking the first sample of the machine"));
  EXPECT_THAT(text, HasSubstr("F10Quit"));
}

TEST(TopScreen, WithoutDevicesTheNotesSayWhy) {
  watch::Snapshot snapshot;
  snapshot.notes = {"nvml: expected a library"};
  EXPECT_THAT(screen(snapshot, {80, 24}),
              HasSubstr("no GPU was found\n   nvml: expected a library\n"));
}

TEST(TopScreen, ThePlotShowsTheCourse) {
  TopState state;
  state.device = 0;
  const std::vector<std::string> lines =
      lines_of(screen(testing::sample_snapshot(), {80, 40}, state));
  // 92 of 141 GiB and 91 % at the end, nothing 30 columns before: both fall to the left.
  const auto top = std::ranges::find_if(
      lines, [](const std::string& line) { return line.find("100%") != std::string::npos; });
  ASSERT_NE(top, lines.end());
  EXPECT_THAT(*(top - 1), HasSubstr("GPU 0 █ 92 GiB • busy 91 %"));
  const auto axis = std::ranges::find_if(top, lines.end(), [](const std::string& line) {
    return line.find("└") != std::string::npos;
  });
  EXPECT_THAT(*axis, HasSubstr("-29 s"));
  const auto dot =
      std::find_if(top, axis, [](const std::string& line) { return line.ends_with("•"); });
  const auto area =
      std::find_if(dot, axis, [](const std::string& line) { return line.ends_with("█"); });
  EXPECT_LT(dot - top, (axis - top) / 5 + 1);  // 91 % is in the upper fifth, 65 % below it
  EXPECT_GT(area, dot);
  EXPECT_TRUE(axis->ends_with("now")) << *axis;
  EXPECT_TRUE((axis - 1)->ends_with("█")) << *(axis - 1);
  EXPECT_THAT(*(axis - 1), HasSubstr("   •"));  // where it began there was next to nothing
}

TEST(TopScreen, AFaultOfTheDriverIsNamed) {
  watch::Snapshot snapshot = testing::sample_snapshot();
  snapshot.devices[3].xids = {{.xid = 79, .count = 2, .last_time_ns = testing::kSnapshotTime}};
  EXPECT_THAT(screen(snapshot, {120, 40}),
              HasSubstr("✖ Xid 79 from the driver, 2 times, last at 09:14:05 UTC"));
}

TEST(TopScreen, OnPaperThereAreNoKeys) {
  const MemoryTimeline course = half_a_minute(testing::sample_snapshot());
  const Grid grid = draw({}, course.history, &course.last, course.clock, {{120, 40}, true, true});
  EXPECT_THAT(grid.text(), Not(HasSubstr("F10")));
}

TEST(History, KeepsABoundedNumberOfPoints) {
  History history;
  const watch::Snapshot snapshot = testing::sample_snapshot();
  for (uint64_t i = 1; i < 2'000; ++i) history.add(sampled(snapshot, i));
  history.add(sampled(snapshot, 1'999));  // the same look again
  const auto& points = history.of(snapshot.devices[0]);
  ASSERT_EQ(points.size(), History::kMaxPoints);
  EXPECT_EQ(points.back().time_ns - points.front().time_ns, (History::kMaxPoints - 1) * kSecondNs);
  EXPECT_FLOAT_EQ(*points.back().memory, 92.0F / 141);
}

TEST(History, NvlinkIsARate) {
  History history;
  watch::Snapshot snapshot = testing::sample_snapshot();
  const auto rate = [&](uint64_t number, uint64_t sent, uint64_t received) {
    snapshot.devices[0].sample.nvlink_sent_bytes = sent;
    snapshot.devices[0].sample.nvlink_received_bytes = received;
    history.add(sampled(snapshot, number));
    return history.nvlink_bytes_per_second(snapshot.devices[0]);
  };
  EXPECT_EQ(rate(1, 100, 100), std::nullopt);
  EXPECT_EQ(rate(2, 300, 200), 300U);
  EXPECT_EQ(rate(4, 400, 300), 100U);      // two seconds
  EXPECT_EQ(rate(5, 0, 0), std::nullopt);  // was reset
}

}  // namespace
}  // namespace vram::show::top
