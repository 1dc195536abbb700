// The screens under tests/data/status were read line by line before they became the expectation.
#include "show/live/status_text.hpp"

#include "base/file.hpp"
#include "base/testing/paths.hpp"
#include "base/text.hpp"
#include "show/live/status_detail.hpp"
#include "show/testing/lines.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>

namespace vram::show {
namespace {

using ::testing::HasSubstr;
using testing::line_with;
using testing::lines_of;
using ::testing::Not;
using testing::unwrapped;

std::string expected_screen(const std::string& name, int columns) {
  std::ifstream file(data_path(fmt::format("status/{}_{}.txt", name, columns)));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::array<watch::Snapshot, 4> sample_snapshots() {
  return {testing::sample_snapshot(), testing::unknown_snapshot(), testing::awkward_snapshot(),
          watch::Snapshot()};
}

TEST(StatusText, LooksAsExpected) {
  for (const int columns : {80, 120, 200}) {
    const TextOptions options = {.columns = columns};
    EXPECT_EQ(draw_status(testing::sample_snapshot(), options), expected_screen("busy", columns));
    EXPECT_EQ(draw_status(testing::unknown_snapshot(), options),
              expected_screen("unknown", columns));
    EXPECT_EQ(draw_status(testing::awkward_snapshot(), options),
              expected_screen("awkward", columns));
  }
}

TEST(StatusDetail, LooksAsExpected) {
  const TextOptions options = {.columns = 100};
  EXPECT_EQ(draw_status_detail(testing::awkward_snapshot(), options),
            expected_screen("detail", 100));
}

TEST(StatusText, NoLineIsWiderThanTheScreen) {
  for (const watch::Snapshot& snapshot : sample_snapshots()) {
    for (int columns = 60; columns <= 250; ++columns) {
      for (const bool bars : {true, false}) {
        const std::string text = draw_status(snapshot, {.columns = columns, .bars = bars});
        for (const std::string& line : lines_of(text)) {
          EXPECT_LE(display_width(line), columns) << line;
          EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
        }
      }
    }
  }
}

// What a broken library might answer: the largest numbers there are.
TEST(StatusText, AbsurdFiguresStayOnTheScreenToo) {
  watch::Snapshot snapshot = testing::sample_snapshot();
  watch::Device& device = snapshot.devices[0];
  device.sample.memory = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  device.sample.busy_percent = device.sample.celsius = device.sample.milliwatts = UINT32_MAX;
  device.unattributed_bytes = device.unaccounted_bytes = INT64_MIN;
  snapshot.processes[0].step_ns = UINT64_MAX;
  for (watch::Process& process : snapshot.processes)
    process.uses[0].allocator = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  for (const int columns : {60, 80, 139, 140, 200}) {
    for (const std::string& line : lines_of(draw_status(snapshot, {.columns = columns})))
      EXPECT_LE(display_width(line), columns) << line;
  }
  EXPECT_THAT(draw_status(snapshot), HasSubstr("16 EiB back"));
}

void expect_nothing_a_terminal_obeys(const std::string& text) {
  for (const std::string& line : lines_of(text)) EXPECT_EQ(printable(line), line);
}

TEST(StatusText, NothingFromOutsideReachesTheTerminal) {
  for (const watch::Snapshot& snapshot : sample_snapshots()) {
    expect_nothing_a_terminal_obeys(draw_status(snapshot));
    expect_nothing_a_terminal_obeys(draw_status_detail(snapshot));
  }
}

TEST(StatusText, EscapeCodesAreColoursAndOnlyWhenAsked) {
  for (const auto draw : {draw_status, draw_status_detail}) {
    std::string text = draw(testing::awkward_snapshot(), {.colour = true});
    EXPECT_THAT(text, HasSubstr("\x1b["));
    for (size_t at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b')) {
      const size_t end = text.find_first_not_of("[0123456789;", at + 1);
      ASSERT_EQ(text.at(end), 'm');
      text.erase(at, end + 1 - at);
    }
    EXPECT_EQ(text, draw(testing::awkward_snapshot(), {}));
  }
}

TEST(StatusText, WithoutUnicodeEveryByteIsPrintableAscii) {
  for (const char c : draw_status(testing::awkward_snapshot(), {.unicode = false}))
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
}

TEST(StatusText, UnknownIsNeverZero) {
  for (const auto draw : {draw_status, draw_status_detail}) {
    watch::Snapshot snapshot = testing::unknown_snapshot();
    for (watch::Device& device : snapshot.devices) device.identity.index += 7;
    snapshot.processes[0].facts.edit().pid = 99;
    snapshot.processes[0].uses[0].device = 8;
    EXPECT_THAT(draw(snapshot, {}), Not(HasSubstr("0")));
  }
}

TEST(StatusText, FewUnattributedBytesAreNotWorthALine) {
  watch::Snapshot snapshot = testing::sample_snapshot();
  snapshot.devices[1].unattributed_bytes = 8 * kMiB;
  EXPECT_THAT(draw_status(snapshot, {.bars = false}), Not(HasSubstr("unattributed")));
  snapshot.devices[1].unattributed_bytes = 9 * kMiB;
  EXPECT_THAT(draw_status(snapshot, {.bars = false}), HasSubstr("9 MiB unattributed"));
}

TEST(StatusText, SaysWhatACleaningWouldGive) {
  watch::Snapshot snapshot = testing::sample_snapshot();
  for (watch::Process& process : snapshot.processes) process.uses[0].allocator.reset();
  EXPECT_THAT(draw_status(snapshot), Not(HasSubstr("cleaning")));
  snapshot.processes[2].uses[0].allocator.emplace().cached_bytes = 2 * kGiB;
  snapshot.processes[8].uses[1].allocator.emplace().cached_bytes = 3 * kGiB;
  EXPECT_THAT(unwrapped(draw_status(snapshot)),
              HasSubstr("a cleaning would give 5 GiB back, cached by allocators: 2 GiB on GPU 2, "
                        "3 GiB on GPU 7"));
}

TEST(StatusText, AProcessStandsBelowEachOfItsDevices) {
  size_t count = 0;
  const std::string text = draw_status(testing::sample_snapshot());
  for (const std::string& line : lines_of(text)) count += line.starts_with("     91007") ? 1U : 0U;
  EXPECT_EQ(count, 2U);
  EXPECT_LT(text.find("\n6    NVIDIA"), text.find("91007"));
  EXPECT_LT(text.find("\n7    NVIDIA"), text.rfind("91007"));
}

TEST(StatusText, WithoutDevicesTheNotesSayWhy) {
  watch::Snapshot snapshot;
  snapshot.notes = {"nvml: no driver is loaded"};
  const std::string text = draw_status(snapshot);
  EXPECT_THAT(text, HasSubstr("no GPU was found"));
  EXPECT_THAT(text, HasSubstr("nvml: no driver is loaded"));
}

TEST(StatusDetail, CommandsAreUncut) {
  EXPECT_THAT(unwrapped(draw_status_detail(testing::sample_snapshot(), {.columns = 72})),
              HasSubstr("/opt/conda/bin/python -u train.py --config configs/llama-70b.yaml --rank "
                        "7 --output /scratch/ann/runs/2026-11-22/llama-70b "));
}

TEST(StatusDetail, BytesAreExact) {
  const std::string text = draw_status_detail(testing::sample_snapshot());
  EXPECT_THAT(line_with(text, "unattributed"), HasSubstr("0 B"));
  EXPECT_THAT(text, HasSubstr("+3 GiB (+3,221,225,472 B)"));
  EXPECT_THAT(text, HasSubstr("141 GiB (151,397,597,184 B)"));
}

}  // namespace
}  // namespace vram::show
