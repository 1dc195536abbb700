#include "base/text.hpp"
#include "show/draw/line.hpp"
#include "show/draw/page.hpp"
#include "show/draw/plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::show {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kGiBs = uint64_t{1} << 30;

std::vector<std::string> texts(const std::vector<Line>& lines) {
  std::vector<std::string> result;
  result.reserve(lines.size());
  for (const Line& line : lines) result.push_back(line.text(false));
  return result;
}

TEST(Wrap, BreaksAtSpaces) {
  EXPECT_THAT(wrap("one two three", 8), ElementsAre("one two", "three"));
}
TEST(Wrap, CutsWhatIsTooLong) {
  EXPECT_THAT(wrap("abcdefgh ij", 3), ElementsAre("abc", "def", "gh", "ij"));
}
TEST(Wrap, KeepsNewlines) { EXPECT_THAT(wrap("a\nb c", 10), ElementsAre("a", "b c")); }
TEST(Wrap, NeverCutsACharacter) { EXPECT_THAT(wrap("äöü", 2), ElementsAre("äö", "ü")); }
TEST(Wrap, BreaksBesideChineseCharacters) {
  EXPECT_THAT(wrap("显存不足时请重试", 8), ElementsAre("显存不足", "时请重试"));
  EXPECT_THAT(wrap("用 nvidia-smi 查看显存", 14), ElementsAre("用 nvidia-smi", "查看显存"));
}
TEST(Wrap, NoLineBeginsOrEndsWithTheWrongPunctuation) {
  EXPECT_THAT(wrap("显存不足，请重试", 8), ElementsAre("显存不", "足，请重", "试"));
  EXPECT_THAT(wrap("占用显存（峰值）", 10), ElementsAre("占用显存", "（峰值）"));
}
TEST(Wrap, EmptyIsOneLine) { EXPECT_THAT(wrap("", 10), ElementsAre("")); }

TEST(Line, TrailingSpacesAreNotWritten) {
  Line line("a", Style::kBad);
  line.pad_to(5).add("  ", Style::kGood);
  EXPECT_EQ(line.text(false), "a");
  EXPECT_EQ(line.text(true), "\x1b[1;31ma\x1b[0m");
  EXPECT_EQ(line.width(), 7);
}

TEST(Line, IsCutWithItsStyles) {
  const Line line = Line("python ", Style::kFaint).add("train.py", Style::kStrong);
  EXPECT_EQ(line.cut(15).text(false), "python train.py");
  EXPECT_EQ(line.cut(10).text(true), "\x1b[2mpython \x1b[0m\x1b[1mtr…\x1b[0m");
  EXPECT_EQ(line.cut(4).text(false), "pyt…");
}

TEST(Bar, IsExactToAnEighth) {
  EXPECT_EQ(share_bar(0, 4), "");
  EXPECT_EQ(share_bar(1, 4), "████");
  EXPECT_EQ(share_bar(0.5, 3), "█▌");
  EXPECT_EQ(share_bar(1e-9, 4), "▏");
}

TEST(Bar, StackedPartsFillTheWhole) {
  const std::vector<BarPart> parts = {{1, "a", {}}, {1, "b", {}}, {1, "c", {}}};
  for (int columns = 1; columns < 50; ++columns)
    EXPECT_EQ(stacked_bar(parts, columns).width(), columns);
  EXPECT_EQ(stacked_bar(parts, 6).text(false), "aabbcc");
}

TEST(Sparkline, ShowsTheShapeAndNotTheNoise) {
  EXPECT_EQ(sparkline(std::vector<uint64_t>{0, 50, 100}, 10), "▁▅█");
  EXPECT_EQ(sparkline(std::vector<uint64_t>{1000, 1001, 1002}, 10), "▄▄▄");
  EXPECT_EQ(sparkline(std::vector<uint64_t>{0, 0}, 10), "▄▄");
  EXPECT_EQ(sparkline(std::vector<uint64_t>{1, 9, 1, 1, 1, 1}, 3), "█▁▁");
}

TEST(Table, AlignsAndShrinks) {
  Table table({{Align::kRight}, {Align::kLeft, Shrink::kFront}, {}});
  table.add_row({Line("1"), Line("short"), Line("x")});
  table.add_row({Line("100"), Line("a/long/path/train.py"), Line("y")});
  EXPECT_THAT(texts(table.draw(0, 80)),
              ElementsAre("  1  short                 x", "100  a/long/path/train.py  y"));
  EXPECT_THAT(texts(table.draw(0, 20)),
              ElementsAre("  1  short         x", "100  …th/train.py  y"));
}

TEST(Ticks, BytesAreRoundAndReachTheTop) {
  const ByteAxis axis = byte_axis(27 * kGiBs + kGiBs / 2, 9);
  EXPECT_EQ(axis.top_bytes, 30 * kGiBs);
  EXPECT_EQ(axis.ticks.back().label, "30 GiB");
  for (uint64_t bytes = 1; bytes < uint64_t{1} << 45; bytes = bytes * 3 / 2 + 1) {
    const ByteAxis any = byte_axis(bytes, 9);
    EXPECT_GE(any.top_bytes, bytes);
    EXPECT_LE(any.top_bytes, bytes * 2 + 5);
    EXPECT_LE(any.rows, 9);
    EXPECT_EQ(any.rows, any.rows_per_tick * static_cast<int>(any.ticks.size()));
  }
}

TEST(Ticks, TimesAreRound) {
  const auto labels = [](uint64_t end, int count) {
    std::vector<std::string> result;
    for (const Tick& tick : time_ticks(end, count)) result.push_back(tick.label);
    return result;
  };
  EXPECT_THAT(labels(4'700'000'000, 6), ElementsAre("0 s", "1 s", "2 s", "3 s", "4 s"));
  EXPECT_THAT(labels(1'000'000'000, 3), ElementsAre("0 s", "0.5 s", "1 s"));
  EXPECT_THAT(labels(90'000'000, 3), ElementsAre("0 ms", "50 ms"));
  EXPECT_THAT(labels(600'000'000'000, 3), ElementsAre("0 min", "5 min", "10 min"));
  for (uint64_t end = 1; end < uint64_t{1} << 55; end = end * 5 / 3 + 1)
    EXPECT_LE(time_ticks(end, 6).size(), 7U);
}

TEST(Ticks, CountsAreWhole) {
  std::vector<std::string> labels;
  for (const Tick& tick : count_ticks(2500, 4)) labels.push_back(tick.label);
  EXPECT_THAT(labels, ElementsAre("0", "1,000", "2,000"));
}

TEST(Ascii, KeepsEveryColumn) {
  EXPECT_EQ(to_ascii("█░ a · b…"), "#: a - b~");
  EXPECT_EQ(to_ascii("显存"), "????");
  EXPECT_EQ(display_width("显存"), 4);
}

TEST(Plot, DrawsHeightsToAnEighth) {
  Plot plot;
  plot.columns = {{0, 0}, {kGiBs, 4 * kGiBs}, {2 * kGiBs, 2 * kGiBs}, {4 * kGiBs, 4 * kGiBs}};
  plot.max_rows = 4;
  plot.x_ticks = {{0, "0 s", {}}};
  const std::vector<std::string> expected = {"    4 GiB ┤ ░ █", "          │ ░ █",
                                             "    2 GiB ┤ ░██", "          │ ███",
                                             "        0 └┬───", "           0 s"};
  EXPECT_EQ(texts(draw_plot(plot)), expected);
}

TEST(Plot, APartlyFilledRowIsAPartlyFilledBlock) {
  Plot plot;
  plot.columns = {{kGiBs, 0}, {kGiBs / 8, 0}, {kGiBs * 5 / 4, 0}, {kGiBs * 4, 0}};
  plot.max_rows = 4;
  EXPECT_EQ(texts(draw_plot(plot))[3], "          │█▁██");
  EXPECT_EQ(texts(draw_plot(plot))[2], "    2 GiB ┤  ▂█");
}

TEST(Plot, MarksThatWouldOverlapTakeAnotherRow) {
  Plot plot;
  plot.columns.resize(40, {kGiBs, kGiBs});
  plot.marks = {{5, "first", {}}, {8, "second", {}}, {10, "third has no place", {}}};
  const auto lines = texts(draw_plot(plot));
  EXPECT_EQ(lines[0], "                   ▼ second");
  EXPECT_EQ(lines[1], "                ▼ first");
}

}  // namespace
}  // namespace vram::show
