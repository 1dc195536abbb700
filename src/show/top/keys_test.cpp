#include "show/top/keys.hpp"

#include "show/testing/sample_snapshot.hpp"
#include "show/top/screen.hpp"

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
struct Session {
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
  Session session;
  EXPECT_EQ(session.selected(), 47'110U);
  session.press(Key::kDown);
  EXPECT_EQ(session.selected(), 47'111U);
  session.press(Key::kUp);
  session.press(Key::kUp);
  EXPECT_EQ(session.selected(), 47'110U);
  session.press(Key::kEnd);
  EXPECT_EQ(session.selected(), 91'007U);
  session.press(Key::kHome);
  session.press(Key::kWheelDown);
  EXPECT_EQ(session.selected(), 47'113U);
}

TEST(Keys, TheSelectionStaysWithItsProcess) {
  Session session;
  session.press(Key::kDown);
  session.type("N");
  session.type("I");
  EXPECT_EQ(session.top_pid(), 91'007U);
  EXPECT_EQ(session.selected(), 47'111U);
  std::erase_if(session.snapshot.processes,
                [](const watch::Process& process) { return process.facts->pid == 47'111; });
  EXPECT_NE(session.selected(), 47'111U);  // it ended: its place stays
}

TEST(Keys, ThePageFollowsTheSelection) {
  Session session;
  for (uint32_t pid = 1; pid <= 200; ++pid) {
    watch::Process process = testing::user_process(pid, "bo", "x");
    testing::add_use(session.snapshot, process, 0, 1);
    session.snapshot.processes.push_back(process);
  }
  for (const Key key :
       {Key::kPageDown, Key::kPageDown, Key::kDown, Key::kEnd, Key::kUp, Key::kPageUp}) {
    session.press(key);
    const View view = session.view();
    EXPECT_LE(view.first, view.selected);
    EXPECT_LT(view.selected, view.first + static_cast<size_t>(view.list_band.rows));
  }
}

TEST(Keys, Sorting) {
  Session session;
  session.type("I");
  EXPECT_EQ(session.top_pid(), 91'007U);
  session.type("M");
  EXPECT_EQ(session.top_pid(), 47'110U);
  session.type("M");  // as often as one likes
  EXPECT_EQ(session.top_pid(), 47'110U);
  session.press(Key::kF6);
  session.press(Key::kDown);  // to host memory, which follows memory
  session.press(Key::kEnter);
  EXPECT_EQ(session.state.order.sort, Field::kHostMemory);
  session.type("T");
  EXPECT_EQ(session.state.order.sort, Field::kStepTime);
  session.type(">");
  session.type("<");
  EXPECT_EQ(session.state.order.sort, Field::kStepTime);
}

TEST(Keys, AClickOnATitleSortsOnARowSelectsOnADeviceShowsItAlone) {
  Session session;
  const View view = session.view();
  const auto title = std::ranges::find(view.columns, Field::kUser, &ColumnPlace::field);
  session.press(Key::kClick, {title->column, view.title_band.row});
  EXPECT_EQ(session.state.order.sort, Field::kUser);
  session.press(Key::kClick, {title->column, view.title_band.row});
  EXPECT_TRUE(session.state.order.is_inverted);
  session.type("M");
  session.press(Key::kClick, {3, view.list_band.row + 2});
  EXPECT_EQ(session.selected(), 47'112U);
  session.press(Key::kClick, {3, view.list_band.row + 99});
  EXPECT_EQ(session.selected(), 47'112U);
  session.press(Key::kClick, {3, view.device_band.row + 3});  // titles, GPU 0, GPU 1, GPU 2
  EXPECT_EQ(session.state.device, 2U);
  EXPECT_EQ(session.press(Key::kClick, {0, kSize.rows - 1}).kind, RequestKind::kNothing);
  EXPECT_EQ(session.state.dialog.kind, DialogKind::kHelp);  // F1 in the bar
}

TEST(Keys, DevicesOneAfterTheOtherThenAll) {
  Session session;
  for (uint32_t device = 0; device < 8; ++device) {
    session.type("g");
    EXPECT_EQ(session.state.device, device);
  }
  session.type("g");
  EXPECT_EQ(session.state.device, std::nullopt);
}

TEST(Keys, FilterSearchAndUser) {
  Session session;
  session.type("\\user:root mem>20G");
  EXPECT_EQ(session.view().rows.size(), 10U);  // not before Enter
  session.press(Key::kEnter);
  EXPECT_EQ(session.view().rows.size(), 1U);
  session.type("\\");
  session.type("x");
  session.press(Key::kEscape);
  EXPECT_EQ(session.state.filter_text, "user:root mem>20G");
  session.type("u");
  session.press(Key::kDown);
  session.press(Key::kEnter);  // everybody, ann, root
  EXPECT_EQ(session.state.filter_text, "mem>20G user:ann");
  EXPECT_EQ(session.view().rows.size(), 8U);
  session.type("u");
  session.press(Key::kEnter);
  EXPECT_EQ(session.state.filter_text, "mem>20G");
  session.type("/rank 3");
  session.press(Key::kEnter);
  EXPECT_EQ(session.selected(), 47'113U);
  session.type("/ann");
  session.press(Key::kEnter);
  session.press(Key::kF3);
  EXPECT_EQ(session.selected(), 47'114U);
  session.type("/nobody");
  session.press(Key::kEnter);
  EXPECT_THAT(session.state.message, HasSubstr("nobody"));
}

TEST(Keys, AWrongFilterSaysSoAndStaysOpen) {
  Session session;
  session.type("\\usr:ann");
  session.press(Key::kEnter);
  EXPECT_EQ(session.state.dialog.kind, DialogKind::kFilter);
  EXPECT_THAT(session.state.message, HasSubstr("usr:ann"));
  session.press(Key::kEscape);
  EXPECT_EQ(session.view().rows.size(), 10U);
}

TEST(Keys, ASignalIsSentAfterAQuestionToWhoWasNamed) {
  Session session;
  session.press(Key::kDown);
  EXPECT_EQ(session.press(Key::kF9).kind, RequestKind::kNothing);
  EXPECT_THAT(session.state.dialog.targets.at(0).label, HasSubstr("47111 ann"));
  session.snapshot.processes.clear();  // it ends while the dialog is open
  session.press(Key::kDown);
  const Request request = session.press(Key::kEnter);
  EXPECT_EQ(request.kind, RequestKind::kSignal);
  EXPECT_EQ(request.signal, SIGTERM);
  EXPECT_THAT(request.processes, ElementsAre(ProcessId{47'111, 48'111}));
}

TEST(Keys, ASecondEnterOrEscapeSendsNothing) {
  for (const Key answer : {Key::kEnter, Key::kEscape, Key::kF10}) {
    Session session;
    session.press(Key::kF9);
    EXPECT_EQ(session.press(answer).kind, RequestKind::kNothing);
    EXPECT_EQ(session.state.dialog.kind, DialogKind::kNone);
  }
}

TEST(Keys, TaggedProcessesAreAskedTogether) {
  Session session;
  session.type(" ");
  session.type(" ");
  session.press(Key::kF8);
  session.press(Key::kDown);
  const Request request = session.press(Key::kEnter);
  EXPECT_EQ(request.kind, RequestKind::kTrim);
  EXPECT_THAT(request.processes, ElementsAre(ProcessId{47'110, 48'110}, ProcessId{47'111, 48'111}));
  EXPECT_TRUE(session.state.tagged.empty());
}

TEST(Keys, ProcessesThatEndedAreTaggedNoMore) {
  Session session;
  session.type("  ");
  EXPECT_EQ(session.state.tagged.size(), 2U);
  session.snapshot.processes.erase(session.snapshot.processes.begin());
  session.press(Key::kUp);
  EXPECT_THAT(session.state.tagged, ElementsAre(ProcessId{47'111, 48'111}));
}

TEST(Keys, WhoIsNotToBeSeenIsNotSignalled) {
  Session session;
  session.snapshot = testing::unknown_snapshot();
  session.press(Key::kF9);
  EXPECT_EQ(session.state.dialog.kind, DialogKind::kNone);
  EXPECT_THAT(session.state.message, HasSubstr("pid namespace"));
}

TEST(Keys, ReadonlyHasNeitherSignalNorTrim) {
  Session session;
  session.state.is_readonly = true;
  for (const Key key : {Key::kF8, Key::kF9}) session.press(key);
  session.type("ka");
  EXPECT_EQ(session.state.dialog.kind, DialogKind::kNone);
  const watch::Sampled sampled = {session.snapshot, 1, 1, 1, 0};
  const std::string text =
      draw(session.state, session.history, &sampled, {}, {kSize, true, false}).text();
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
  Session session;
  for (int step = 0; step < 6'000; ++step) {
    if (any(0, 20) == 0) session.snapshot = snapshots.at(static_cast<size_t>(any(0, 3)));
    const Size size = {any(0, 130), any(0, 45)};
    const Key key = static_cast<Key>(any(0, static_cast<int>(Key::kWheelDown)));
    const std::string text(
        1, kCharacters[static_cast<size_t>(any(0, static_cast<int>(kCharacters.size()) - 1))]);
    const Place place = {any(-1, size.columns), any(-1, size.rows)};
    (void)handle(session.state, {session.snapshot, session.history, size}, {key, text, place});
    const watch::Sampled sampled = {session.snapshot, 1, 1, 1, 0};
    ASSERT_EQ(draw(session.state, session.history, &sampled, {}, {size, true, false}).size(), size);
    const View view = view_of(session.state, session.snapshot, session.history, size);
    ASSERT_TRUE(view.rows.empty() || view.selected < view.rows.size());
    ASSERT_LE(view.first, view.selected);
  }
}

TEST(Keys, PeriodsGoUpAndDownBetweenTheirBounds) {
  Session session;
  EXPECT_EQ(session.type("+").kind, RequestKind::kSetPeriod);
  EXPECT_EQ(session.state.period_ns, 2'000'000'000U);
  session.type("--");
  EXPECT_EQ(session.state.period_ns, 500'000'000U);
  session.type("----------");
  EXPECT_EQ(session.state.period_ns, 100'000'000U);
  session.type("++++++++++++++++++");
  EXPECT_EQ(session.state.period_ns, 3'600'000'000'000U);
  session.state.period_ns = 700'000'000;  // as --period may say
  session.type("+");
  EXPECT_EQ(session.state.period_ns, 1'000'000'000U);
}

TEST(Keys, WhatIsAskedOfTheOutside) {
  Session session;
  EXPECT_EQ(session.type("q").kind, RequestKind::kQuit);
  EXPECT_EQ(session.press(Key::kF10).kind, RequestKind::kQuit);
  EXPECT_EQ(session.type("r").kind, RequestKind::kSampleNow);
  EXPECT_EQ(session.type("w").kind, RequestKind::kRelease);
  EXPECT_EQ(session.type("p").kind, RequestKind::kPause);
  EXPECT_TRUE(session.state.is_paused);
}

TEST(Keys, ColumnsAreHiddenAndShown) {
  Session session;
  const auto has = [&](Field field) {
    const View view = session.view();
    return std::ranges::find(view.columns, field, &ColumnPlace::field) != view.columns.end();
  };
  EXPECT_TRUE(has(Field::kUser));
  session.press(Key::kF2);
  session.press(Key::kDown);  // the user comes second
  session.type(" ");
  session.press(Key::kEscape);
  EXPECT_FALSE(has(Field::kUser));
  session.press(Key::kF7);
  EXPECT_TRUE(has(Field::kSplit));
}

TEST(Keys, LeftFoldsAndRightUnfolds) {
  Session session;
  for (watch::Process& process : session.snapshot.processes)
    if (process.facts->pid > 47'110 && process.facts->pid < 48'000)
      process.facts.edit().parent_pid = 47'110;
  session.press(Key::kF5);
  session.press(Key::kLeft);
  EXPECT_EQ(session.view().rows.size(), 3U);  // the first rank, and the server's two
  session.press(Key::kRight);
  EXPECT_EQ(session.view().rows.size(), 10U);
}

}  // namespace
}  // namespace vram::show::top
