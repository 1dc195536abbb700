#include "show/top/keys.hpp"

#include "show/testing/sample_snapshot.hpp"
#include "show/top/screen.hpp"
#include "show/top/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <random>

namespace vram::show::top {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Size kSize = {120, 40};

// Keys pressed at the sample machine: ranks 47110 to 47117 of ann on GPUs 0 to 7, 92 GiB each;
// root's server 91007 with 20 GiB on GPU 6 and 21 GiB on 7.
struct Desk {
  watch::Snapshot snapshot = testing::sample_snapshot();
  History history;
  TopState state;

  Request press(Key key, Place place = {}) {
    return handle(state, {snapshot, history, kSize}, {key, "", place});
  }
  Request type(std::string_view text) {
    Request last;
    for (const char c : text)
      last = handle(state, {snapshot, history, kSize}, {Key::kText, std::string(1, c), {}});
    return last;
  }
  [[nodiscard]] View view() const { return view_of(state, snapshot, history, kSize); }
  [[nodiscard]] uint32_t selected() const { return view().rows[view().selected].pid; }
  [[nodiscard]] uint32_t top_pid() const { return view().rows.front().pid; }
};

TEST(Keys, TheSelectionMovesAndStopsAtTheEnds) {
  Desk desk;
  EXPECT_EQ(desk.selected(), 47'110U);
  desk.press(Key::kDown);
  EXPECT_EQ(desk.selected(), 47'111U);
  desk.press(Key::kUp);
  desk.press(Key::kUp);
  EXPECT_EQ(desk.selected(), 47'110U);
  desk.press(Key::kEnd);
  EXPECT_EQ(desk.selected(), 91'007U);
  desk.press(Key::kHome);
  desk.press(Key::kWheelDown);
  EXPECT_EQ(desk.selected(), 47'113U);
}

TEST(Keys, TheSelectionStaysWithItsProcess) {
  Desk desk;
  desk.press(Key::kDown);
  desk.type("N");
  desk.type("I");
  EXPECT_EQ(desk.top_pid(), 91'007U);
  EXPECT_EQ(desk.selected(), 47'111U);
  std::erase_if(desk.snapshot.processes,
                [](const watch::Process& process) { return process.facts->pid == 47'111; });
  EXPECT_NE(desk.selected(), 47'111U);  // it ended: its place stays
}

TEST(Keys, ThePageFollowsTheSelection) {
  Desk desk;
  for (uint32_t pid = 1; pid <= 200; ++pid) {
    watch::Process process = testing::user_process(pid, "bo", "x");
    testing::add_use(desk.snapshot, process, 0, 1);
    desk.snapshot.processes.push_back(process);
  }
  for (const Key key :
       {Key::kPageDown, Key::kPageDown, Key::kDown, Key::kEnd, Key::kUp, Key::kPageUp}) {
    desk.press(key);
    const View view = desk.view();
    EXPECT_LE(view.first, view.selected);
    EXPECT_LT(view.selected, view.first + static_cast<size_t>(view.list_band.rows));
  }
}

TEST(Keys, Sorting) {
  Desk desk;
  desk.type("I");
  EXPECT_EQ(desk.top_pid(), 91'007U);
  desk.type("M");
  EXPECT_EQ(desk.top_pid(), 47'110U);
  desk.type("M");  // as often as one likes
  EXPECT_EQ(desk.top_pid(), 47'110U);
  desk.press(Key::kF6);
  desk.press(Key::kDown);  // to host memory, which follows memory
  desk.press(Key::kEnter);
  EXPECT_EQ(desk.state.order.sort, Field::kHostMemory);
  desk.type("T");
  EXPECT_EQ(desk.state.order.sort, Field::kStepTime);
  desk.type(">");
  desk.type("<");
  EXPECT_EQ(desk.state.order.sort, Field::kStepTime);
}

TEST(Keys, AClickOnATitleSortsOnARowSelectsOnADeviceShowsItAlone) {
  Desk desk;
  const View view = desk.view();
  const auto title = std::ranges::find(view.columns, Field::kUser, &ColumnPlace::field);
  desk.press(Key::kClick, {title->column, view.title_band.row});
  EXPECT_EQ(desk.state.order.sort, Field::kUser);
  desk.press(Key::kClick, {title->column, view.title_band.row});
  EXPECT_TRUE(desk.state.order.is_inverted);
  desk.type("M");
  desk.press(Key::kClick, {3, view.list_band.row + 2});
  EXPECT_EQ(desk.selected(), 47'112U);
  desk.press(Key::kClick, {3, view.list_band.row + 99});
  EXPECT_EQ(desk.selected(), 47'112U);
  desk.press(Key::kClick, {3, view.device_band.row + 3});  // titles, GPU 0, GPU 1, GPU 2
  EXPECT_EQ(desk.state.device, 2U);
  EXPECT_EQ(desk.press(Key::kClick, {0, kSize.rows - 1}).ask, Ask::kNothing);
  EXPECT_EQ(desk.state.dialog.kind, DialogKind::kHelp);  // F1 in the bar
}

TEST(Keys, DevicesOneAfterTheOtherThenAll) {
  Desk desk;
  for (uint32_t device = 0; device < 8; ++device) {
    desk.type("g");
    EXPECT_EQ(desk.state.device, device);
  }
  desk.type("g");
  EXPECT_EQ(desk.state.device, std::nullopt);
}

TEST(Keys, FilterSearchAndUser) {
  Desk desk;
  desk.type("\\user:root mem>20G");
  EXPECT_EQ(desk.view().rows.size(), 10U);  // not before Enter
  desk.press(Key::kEnter);
  EXPECT_EQ(desk.view().rows.size(), 1U);
  desk.type("\\");
  desk.type("x");
  desk.press(Key::kEscape);
  EXPECT_EQ(desk.state.filter_text, "user:root mem>20G");
  desk.type("u");
  desk.press(Key::kDown);
  desk.press(Key::kEnter);  // everybody, ann, root
  EXPECT_EQ(desk.state.filter_text, "mem>20G user:ann");
  EXPECT_EQ(desk.view().rows.size(), 8U);
  desk.type("u");
  desk.press(Key::kEnter);
  EXPECT_EQ(desk.state.filter_text, "mem>20G");
  desk.type("/rank 3");
  desk.press(Key::kEnter);
  EXPECT_EQ(desk.selected(), 47'113U);
  desk.type("/ann");
  desk.press(Key::kEnter);
  desk.press(Key::kF3);
  EXPECT_EQ(desk.selected(), 47'114U);
  desk.type("/nobody");
  desk.press(Key::kEnter);
  EXPECT_THAT(desk.state.message, HasSubstr("nobody"));
}

TEST(Keys, AWrongFilterSaysSoAndStaysOpen) {
  Desk desk;
  desk.type("\\usr:ann");
  desk.press(Key::kEnter);
  EXPECT_EQ(desk.state.dialog.kind, DialogKind::kFilter);
  EXPECT_THAT(desk.state.message, HasSubstr("usr:ann"));
  desk.press(Key::kEscape);
  EXPECT_EQ(desk.view().rows.size(), 10U);
}

TEST(Keys, ASignalIsSentAfterAQuestionToWhoWasNamed) {
  Desk desk;
  desk.press(Key::kDown);
  EXPECT_EQ(desk.press(Key::kF9).ask, Ask::kNothing);
  EXPECT_THAT(desk.state.dialog.targets.at(0).label, HasSubstr("47111 ann"));
  desk.snapshot.processes.clear();  // it ends while the dialog is open
  desk.press(Key::kDown);
  const Request request = desk.press(Key::kEnter);
  EXPECT_EQ(request.ask, Ask::kSignal);
  EXPECT_EQ(request.signal, SIGTERM);
  EXPECT_THAT(request.processes, ElementsAre(ProcessId{47'111, 48'111}));
}

TEST(Keys, ASecondEnterOrEscapeSendsNothing) {
  for (const Key answer : {Key::kEnter, Key::kEscape, Key::kF10}) {
    Desk desk;
    desk.press(Key::kF9);
    EXPECT_EQ(desk.press(answer).ask, Ask::kNothing);
    EXPECT_EQ(desk.state.dialog.kind, DialogKind::kNone);
  }
}

TEST(Keys, TaggedProcessesAreAskedTogether) {
  Desk desk;
  desk.type(" ");
  desk.type(" ");
  desk.press(Key::kF8);
  desk.press(Key::kDown);
  const Request request = desk.press(Key::kEnter);
  EXPECT_EQ(request.ask, Ask::kTrim);
  EXPECT_THAT(request.processes, ElementsAre(ProcessId{47'110, 48'110}, ProcessId{47'111, 48'111}));
  EXPECT_TRUE(desk.state.tagged.empty());
}

TEST(Keys, ProcessesThatEndedAreTaggedNoMore) {
  Desk desk;
  desk.type("  ");
  EXPECT_EQ(desk.state.tagged.size(), 2U);
  desk.snapshot.processes.erase(desk.snapshot.processes.begin());
  desk.press(Key::kUp);
  EXPECT_THAT(desk.state.tagged, ElementsAre(ProcessId{47'111, 48'111}));
}

TEST(Keys, WhoIsNotToBeSeenIsNotSignalled) {
  Desk desk;
  desk.snapshot = testing::unknown_snapshot();
  desk.press(Key::kF9);
  EXPECT_EQ(desk.state.dialog.kind, DialogKind::kNone);
  EXPECT_THAT(desk.state.message, HasSubstr("pid namespace"));
}

TEST(Keys, ReadonlyHasNeitherSignalNorTrim) {
  Desk desk;
  desk.state.is_readonly = true;
  for (const Key key : {Key::kF8, Key::kF9}) desk.press(key);
  desk.type("ka");
  EXPECT_EQ(desk.state.dialog.kind, DialogKind::kNone);
  const watch::Sampled sampled = {desk.snapshot, 1, 1, 1, 0};
  const std::string text =
      draw(desk.state, desk.history, &sampled, {}, {kSize, true, false}).text();
  EXPECT_EQ(text.find("Kill"), std::string::npos);
  EXPECT_EQ(text.find("Trim"), std::string::npos);
}

// Whatever is pressed and whatever comes and goes meanwhile.
TEST(Keys, AnySequenceLeavesAScreenThatCanBeDrawn) {
  std::mt19937 random(5);
  const auto any = [&](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  const std::array snapshots = {testing::sample_snapshot(), testing::awkward_snapshot(),
                                testing::unknown_snapshot(), watch::Snapshot()};
  constexpr std::string_view kCharacters = "h?/\\t><MPTNIkaugvo Upr+-w:0x!m";
  Desk desk;
  for (int step = 0; step < 6'000; ++step) {
    if (any(0, 20) == 0) desk.snapshot = snapshots.at(static_cast<size_t>(any(0, 3)));
    const Size size = {any(0, 130), any(0, 45)};
    const Key key = static_cast<Key>(any(0, static_cast<int>(Key::kWheelDown)));
    const std::string text(
        1, kCharacters[static_cast<size_t>(any(0, static_cast<int>(kCharacters.size()) - 1))]);
    const Place place = {any(-1, size.columns), any(-1, size.rows)};
    (void)handle(desk.state, {desk.snapshot, desk.history, size}, {key, text, place});
    const watch::Sampled sampled = {desk.snapshot, 1, 1, 1, 0};
    ASSERT_EQ(draw(desk.state, desk.history, &sampled, {}, {size, true, false}).size(), size);
    const View view = view_of(desk.state, desk.snapshot, desk.history, size);
    ASSERT_TRUE(view.rows.empty() || view.selected < view.rows.size());
    ASSERT_LE(view.first, view.selected);
  }
}

TEST(Keys, PeriodsGoUpAndDownBetweenTheirBounds) {
  Desk desk;
  EXPECT_EQ(desk.type("+").ask, Ask::kSetPeriod);
  EXPECT_EQ(desk.state.period_ns, 2'000'000'000U);
  desk.type("--");
  EXPECT_EQ(desk.state.period_ns, 500'000'000U);
  desk.type("----------");
  EXPECT_EQ(desk.state.period_ns, 100'000'000U);
  desk.type("++++++++++++++++++");
  EXPECT_EQ(desk.state.period_ns, 3'600'000'000'000U);
  desk.state.period_ns = 700'000'000;  // as --period may say
  desk.type("+");
  EXPECT_EQ(desk.state.period_ns, 1'000'000'000U);
}

TEST(Keys, WhatIsAskedOfTheOutside) {
  Desk desk;
  EXPECT_EQ(desk.type("q").ask, Ask::kQuit);
  EXPECT_EQ(desk.press(Key::kF10).ask, Ask::kQuit);
  EXPECT_EQ(desk.type("r").ask, Ask::kLookNow);
  EXPECT_EQ(desk.type("w").ask, Ask::kRelease);
  EXPECT_EQ(desk.type("p").ask, Ask::kPause);
  EXPECT_TRUE(desk.state.is_paused);
}

TEST(Keys, ColumnsAreHiddenAndShown) {
  Desk desk;
  const auto has = [&](Field field) {
    const View view = desk.view();
    return std::ranges::find(view.columns, field, &ColumnPlace::field) != view.columns.end();
  };
  EXPECT_TRUE(has(Field::kUser));
  desk.press(Key::kF2);
  desk.press(Key::kDown);  // the user comes second
  desk.type(" ");
  desk.press(Key::kEscape);
  EXPECT_FALSE(has(Field::kUser));
  desk.press(Key::kF7);
  EXPECT_TRUE(has(Field::kSplit));
}

TEST(Keys, LeftFoldsAndRightUnfolds) {
  Desk desk;
  for (watch::Process& process : desk.snapshot.processes)
    if (process.facts->pid > 47'110 && process.facts->pid < 48'000)
      process.facts.edit().parent_pid = 47'110;
  desk.press(Key::kF5);
  desk.press(Key::kLeft);
  EXPECT_EQ(desk.view().rows.size(), 3U);  // the first rank, and the server's two
  desk.press(Key::kRight);
  EXPECT_EQ(desk.view().rows.size(), 10U);
}

}  // namespace
}  // namespace vram::show::top
