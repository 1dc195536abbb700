#include "base/bytes.hpp"
#include "show/browse/keys.hpp"
#include "show/browse/screen.hpp"
#include "show/testing/sample_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace vram::show::browse {
namespace {

using explain::Dimension;
using ::testing::HasSubstr;
using ::testing::Not;
using top::Event;
using top::Key;

// A recording of 10 s and 10,000 events, on a timeline with a column for each 100 events.
class Browse : public ::testing::Test {
 protected:
  Browse() {
    for (int64_t i = 0; i < 100; ++i) {
      timeline_.columns.push_back({static_cast<uint64_t>(i + 1) << 27, uint64_t{17} << 30});
      timeline_.first_events.push_back(i * 100);
      timeline_.events.push_back(i * 100 + 50);
    }
    timeline_.last_event = 9'999;
    state_.range = whole_;
    state_.event = report_.devices[0].peak.requested.event;
  }
  [[nodiscard]] Seen seen() const {
    return {report_, report_.devices[0], whole_, timeline_, report_.devices[0].at_peak, size_};
  }
  Request press(Key key) { return handle(state_, seen(), Event{key, "", {}}); }
  Request type(const std::string& text) {
    Request last;
    for (const char c : text) last = handle(state_, seen(), Event{Key::kText, {c}, {}});
    return last;
  }
  [[nodiscard]] std::string screen() const { return draw(state_, seen(), true).text(); }
  [[nodiscard]] BrowseView view() const { return view_of(state_, seen()); }

  explain::Report report_ = show::testing::sample_report();
  Range whole_ = {0, 10e9};
  BrowseTimeline timeline_;
  BrowseState state_;
  top::Size size_ = {112, 40};
};

TEST_F(Browse, ShowsTheMomentAndItsHolders) {
  const std::string text = screen();
  EXPECT_THAT(text, HasSubstr("unet.pickle.xz  GPU 0"));
  EXPECT_THAT(text, HasSubstr("in step 8, event 8,500"));
  EXPECT_THAT(text, HasSubstr("requested 15 GiB"));
  EXPECT_THAT(text, HasSubstr("train.py:42 loss_fn"));
  EXPECT_THAT(text, HasSubstr("7.5 GiB"));
  EXPECT_THAT(text, HasSubstr("3 of 3 rows"));
  EXPECT_THAT(text, HasSubstr("F1Help"));
}

TEST_F(Browse, IsDrawnAtEverySize) {
  for (const top::Size size : {top::Size{1, 1}, {10, 3}, {30, 8}, {80, 24}, {300, 90}}) {
    size_ = size;
    for (const DialogKind dialog : {DialogKind::kNone, DialogKind::kHelp, DialogKind::kDetail,
                                    DialogKind::kFilter, DialogKind::kGoTo}) {
      state_.dialog = dialog;
      for (const List list : {List::kHolders, List::kFindings}) {
        state_.list = list;
        EXPECT_EQ(draw(state_, seen(), false).size(), size);
        (void)press(Key::kPageDown);
        state_.dialog = dialog;
      }
    }
  }
}

TEST_F(Browse, MovesToTheMomentsOfColumnsBothWays) {
  (void)press(Key::kLeft);
  EXPECT_EQ(state_.event, 8'450);
  (void)press(Key::kRight);
  EXPECT_EQ(state_.event, 8'550);
  (void)type("]");
  EXPECT_EQ(state_.event, 8'551);
  (void)type("[[");
  EXPECT_EQ(state_.event, 8'549);
  (void)type("<");
  EXPECT_EQ(state_.event, 8'500);
  (void)type("<>");
  EXPECT_EQ(state_.event, 8'500);
  for (int i = 0; i < 20; ++i) (void)press(Key::kRight);
  EXPECT_EQ(state_.event, 9'999);
  for (int i = 0; i < 200; ++i) (void)press(Key::kLeft);
  EXPECT_EQ(state_.event, explain::kBeforeFirstEvent);
  (void)type("p");
  EXPECT_EQ(state_.event, 8'500);
}

TEST_F(Browse, ZoomsAroundTheMoment) {
  (void)type("++");
  EXPECT_EQ(state_.range.to - state_.range.from, 2.5e9);
  EXPECT_LE(state_.range.from, 8e9);
  EXPECT_GE(state_.range.to, 8e9);
  for (int i = 0; i < 60; ++i) (void)type("+");
  EXPECT_EQ(state_.range.to - state_.range.from, 1000);
  (void)type("---");
  EXPECT_EQ(state_.range.to - state_.range.from, 8000);
  (void)type("0");
  EXPECT_EQ(state_.range, whole_);
}

TEST_F(Browse, GroupsHoldersByTheNextDimension) {
  (void)press(Key::kF6);
  EXPECT_EQ(state_.by, Dimension::kScope);
  EXPECT_THAT(screen(), HasSubstr("backward"));
  (void)type("b");
  EXPECT_EQ(state_.by, Dimension::kStack);
  (void)press(Key::kEnter);
  EXPECT_THAT(screen(), HasSubstr("/home/user/train.py:42"));
  (void)press(Key::kEscape);
  (void)type("b");
  EXPECT_EQ(state_.by, Dimension::kUserFrame);
}

TEST_F(Browse, FiltersAndSearchesRows) {
  (void)press(Key::kF4);
  (void)type("FORWARDx");
  (void)press(Key::kBackspace);
  EXPECT_THAT(screen(), HasSubstr("filter: FORWARD"));
  (void)press(Key::kEnter);
  ASSERT_EQ(view().row_count(), 1U);
  EXPECT_EQ(view().holders[0]->name, "train.py:17 forward");
  (void)press(Key::kEscape);
  EXPECT_EQ(view().row_count(), 3U);
  (void)type("/before");
  (void)press(Key::kEnter);
  EXPECT_EQ(view().selected, 2U);
  (void)type("/nothing");
  (void)press(Key::kEnter);
  EXPECT_THAT(screen(), HasSubstr("no row mentions 'nothing'"));
}

TEST_F(Browse, LeadsFromFindingsToTheirMoments) {
  (void)press(Key::kTab);
  EXPECT_THAT(screen(), HasSubstr("is stranded in 12 segments"));
  EXPECT_THAT(screen(), HasSubstr("expandable_segments:True"));
  (void)press(Key::kEnter);
  EXPECT_EQ(state_.list, List::kHolders);
  EXPECT_EQ(state_.event, report_.devices[0].at_reserved_peak.moment.event);
  (void)press(Key::kF2);
  (void)press(Key::kDown);
  (void)press(Key::kEnter);
  EXPECT_EQ(state_.event, 9'999);  // of a leak: the end of the last step
}

TEST_F(Browse, AsksForATypedMoment) {
  (void)type("g");
  (void)type("soon");
  (void)press(Key::kEnter);
  EXPECT_THAT(screen(), HasSubstr("found 'soon'"));
  for (int i = 0; i < 4; ++i) (void)press(Key::kBackspace);
  (void)type("step:3");
  const Request request = press(Key::kEnter);
  EXPECT_EQ(request.kind, RequestKind::kGoTo);
  EXPECT_EQ(request.moment.kind, explain::MomentKind::kStep);
  EXPECT_EQ(request.moment.value, 3U);
  EXPECT_EQ(type("q").kind, RequestKind::kQuit);
  EXPECT_EQ(press(Key::kF10).kind, RequestKind::kQuit);
}

TEST_F(Browse, SaysWhereThereIsNothing) {
  report_.devices[0].ooms.clear();
  (void)type("o");
  EXPECT_THAT(screen(), HasSubstr("no request failed"));
  report_.devices[0].findings.clear();
  (void)press(Key::kTab);
  EXPECT_THAT(screen(), HasSubstr("nothing was found"));
  (void)press(Key::kEnter);
  EXPECT_EQ(state_.list, List::kFindings);
}

TEST_F(Browse, ShowsWhatATerminalWouldObey) {
  report_.devices[0].at_peak.breakdowns[0].holders[0].name = "\x1b[2J\xE2\x80\xAE evil";
  EXPECT_THAT(screen(), HasSubstr("\\x1b[2J\\u202e evil"));
  EXPECT_THAT(screen(), Not(HasSubstr("\x1b")));
}

TEST_F(Browse, TakesClicks) {
  const BrowseView before = view();
  (void)handle(state_, seen(), Event{Key::kClick, "", {5, before.list_row + 1}});
  EXPECT_EQ(view().selected, 1U);
  (void)handle(state_, seen(), Event{Key::kClick, "", {kPlotGutter + 20, before.plot_row + 3}});
  EXPECT_EQ(state_.event, 2'050);
  EXPECT_EQ(handle(state_, seen(), Event{Key::kClick, "", {1, before.bar_row}}).kind,
            RequestKind::kNothing);
  EXPECT_EQ(state_.dialog, DialogKind::kHelp);
}

}  // namespace
}  // namespace vram::show::browse
