#include "show/top/grid.hpp"

#include "base/testing/hostile_text.hpp"
#include "base/text.hpp"
#include "show/testing/lines.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vram::show::top {
namespace {

using testing::lines_of;

TEST(Grid, HoldsTextWhereItWasPut) {
  Grid grid({10, 2});
  EXPECT_EQ(grid.put({2, 1}, "abc"), 5);
  EXPECT_EQ(grid.text(), "\n  abc\n");
}

TEST(Grid, CutsWhatDoesNotFit) {
  Grid grid({5, 1});
  grid.put({3, 0}, "abc");
  EXPECT_EQ(grid.text(), "   ab\n");
  grid.put({-2, 0}, "xyz");  // its third column is the screen's first
  EXPECT_EQ(grid.text(), "z  ab\n");
  grid.put({0, 0}, "12345", Style::kPlain, 2);
  EXPECT_EQ(grid.text(), "12 ab\n");
  for (const Place outside : {Place{0, -1}, Place{0, 1}, Place{5, 0}, Place{99, 99}})
    grid.put(outside, "no");
  EXPECT_EQ(grid.text(), "12 ab\n");
}

TEST(Grid, NeverShowsHalfOfAWideCharacter) {
  Grid grid({5, 1});
  grid.put({0, 0}, "显存显");  // the third would need columns 4 and 5
  EXPECT_EQ(grid.text(), "显存\n");
  grid.put({1, 0}, "x");  // over the second half of the first
  EXPECT_EQ(grid.text(), " x存\n");
  grid.put({2, 0}, "y");  // over the first half of the second
  EXPECT_EQ(grid.text(), " xy\n");
  grid.put({0, 0}, "ab显");
  grid.put({1, 0}, "显");
  EXPECT_EQ(grid.text(), "a显\n");
  EXPECT_EQ(grid.at({3, 0}).columns, 1);
}

TEST(Grid, MarksStayWithTheirGlyph) {
  Grid grid({4, 1});
  EXPECT_EQ(grid.put({0, 0}, "e\u0301a"), 2);
  EXPECT_EQ(grid.text(), "e\u0301a\n");
  grid.put({0, 0}, "\u0301");  // combines with nothing of its own text
  EXPECT_EQ(grid.text(), "e\u0301a\n");
  std::string many = "e";
  for (int i = 0; i < 50; ++i) many += "\u0301";
  EXPECT_EQ(grid.put({0, 0}, many + "b"), 2);
  EXPECT_EQ(grid.at({1, 0}).utf8[0], 'b');
}

TEST(Grid, WhatATerminalObeysIsReplaced) {
  Grid grid({9, 1});
  grid.put({0, 0}, "a\x1b[2J\u202e\xff");
  EXPECT_EQ(grid.text(), "a\uFFFD[2J\uFFFD\uFFFD\n");
}

TEST(Grid, KeepsStylesAndInvertsCells) {
  Grid grid({6, 1});
  grid.put({0, 0}, Line("ab", Style::kBad).add("cd", Style::kStrong), 3);
  grid.invert({1, 0}, 99);
  EXPECT_EQ(grid.at({0, 0}).style, Style::kBad);
  EXPECT_EQ(grid.at({2, 0}).style, Style::kStrong);
  EXPECT_EQ(grid.at({3, 0}).style, Style::kPlain);
  EXPECT_FALSE(grid.at({0, 0}).is_inverted);
  EXPECT_TRUE(grid.at({5, 0}).is_inverted);
  EXPECT_EQ(grid.text(true), "\x1b[1;31mab\x1b[0m\x1b[1mc\x1b[0m\n");
}

TEST(Grid, BlankTearsWhatReachesIn) {
  Grid grid({6, 1});
  grid.put({0, 0}, "显存显");
  grid.blank({1, 0}, {2, 7});
  EXPECT_EQ(grid.text(), "    显\n");
}

TEST(Grid, InAsciiEveryColumnStays) {
  Grid grid({8, 1});
  grid.put({0, 0}, "█显e\u0301─x");
  grid.make_ascii();
  EXPECT_EQ(grid.text(), "#??e-x\n");
}

// Any text at any place of any size: cells agree with each other, and nothing is too wide.
TEST(Grid, StaysWholeWhateverIsPut) {
  std::mt19937 random(7);
  const std::string texts[] = {
      "显存", "a", "e\u0301\u0301", vram::testing::hostile_text(), "█▓", "\xff\xfe", ""};
  const auto any = [&](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  for (int round = 0; round < 2'000; ++round) {
    Grid grid({any(0, 12), any(0, 4)});
    for (int i = 0; i < 12; ++i) {
      grid.put({any(-3, 14), any(-1, 5)}, texts[any(0, 6)], Style::kGood, any(0, 15));
      if (any(0, 5) == 0) grid.blank({any(-2, 12), any(-1, 4)}, {any(0, 6), any(0, 3)});
    }
    if (any(0, 3) == 0) grid.make_ascii();
    for (int row = 0; row < grid.size().rows; ++row) {
      for (int column = 0; column < grid.size().columns; ++column) {
        const bool is_taken = grid.at({column, row}).columns == 0;
        const bool takes = column > 0 && grid.at({column - 1, row}).columns == 2;
        ASSERT_EQ(is_taken, takes);
      }
      ASSERT_LE(grid.line(row).width(), grid.size().columns);
    }
    for (const std::string& line : lines_of(grid.text())) ASSERT_EQ(line, printable(line));
  }
}

}  // namespace
}  // namespace vram::show::top
