#include "base/text.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace vram {
namespace {

TEST(Printable, KeepsTextAndDefusesTheRest) {
  EXPECT_EQ(printable("train.py 显存"), "train.py 显存");
  EXPECT_EQ(printable("a\x1b[31mb\n\t"), "a\\x1b[31mb\\n\\t");
  EXPECT_EQ(printable("\xed\xa0\x80x"), "\uFFFDx") << "a surrogate is one replacement";
  EXPECT_EQ(printable("\xff\xc3"), "\uFFFD\uFFFD");
  EXPECT_EQ(printable("\xc0\xaf"), "\uFFFD\uFFFD") << "overlong";
}

TEST(Printable, TextThatTurnsOthersAroundIsShown) {
  EXPECT_EQ(printable("a\u202Eexe.py\u2069\u2028"), "a\\u202eexe.py\\u2069\\u2028");
  EXPECT_EQ(printable("\u2027\u202F\u2065\u206A"), "\u2027\u202F\u2065\u206A");
}

TEST(ValidUtf8, LeavesControlsToTheWriter) { EXPECT_EQ(valid_utf8("a\n\x80"), "a\n\uFFFD"); }

TEST(ValidUtf8, AnyBytesBecomeStableText) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 12, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string once = valid_utf8(bytes);
    EXPECT_EQ(valid_utf8(once), once);
    EXPECT_EQ(printable(printable(bytes)), printable(bytes));
  }
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("显存"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("▁█…"), 3);
}

TEST(ShortenFront, FitsAndSaysThatSomethingIsGone) {
  EXPECT_EQ(shorten_front("short", 5), "short");
  EXPECT_EQ(shorten_front("a/long/path.py", 8), "…path.py");
  EXPECT_LE(display_width(shorten_front("显存显存显存", 5)), 5);
  EXPECT_EQ(shorten_front("abc", 0), "");
}

TEST(ShortenEnd, FitsAndSaysThatSomethingIsGone) {
  EXPECT_EQ(shorten_end("short", 5), "short");
  EXPECT_EQ(shorten_end("python train.py", 9), "python t…");
  EXPECT_EQ(shorten_end("显存显存", 4), "显…") << "a wide character is not halved";
  EXPECT_EQ(shorten_end("abc", 1), "…");
  EXPECT_EQ(shorten_end("abc", 0), "");
}

TEST(CodePoints, OfEachLengthThereAndBack) {
  for (const std::string_view text : {"a", "é", "显", "🎉"})
    EXPECT_EQ(utf8_of(first_code_point(text)), text);
  EXPECT_EQ(first_code_point("显存"), U'显');
}

TEST(LimitBytes, KeepsCharactersCompleteAndShowsThatSomethingIsMissing) {
  EXPECT_EQ(limit_bytes("train.py", 8), "train.py");
  EXPECT_EQ(limit_bytes("train.py", 5), "train…");
  EXPECT_EQ(limit_bytes("显存", 5), "显…");
  EXPECT_EQ(limit_bytes("显存", 3), "显…");
  EXPECT_EQ(limit_bytes("显存", 2), "…");
  EXPECT_EQ(limit_bytes(std::string(9, '\x80'), 8), std::string(5, '\x80') + "…") << "not UTF-8";
}

TEST(Nearest, OnlyWhatIsNear) {
  const std::vector<std::string> names = {"report", "convert"};
  EXPECT_EQ(nearest("reprot", names), "report");
  EXPECT_EQ(nearest("convrt", names), "convert");
  EXPECT_EQ(nearest("dance", names), "");
  EXPECT_EQ(did_you_mean("reprot", names), ", did you mean 'report'?");
  EXPECT_EQ(did_you_mean("dance", names), "");
}

TEST(AsciiLower, ChangesNothingButLatinLetters) {
  EXPECT_EQ(ascii_lower("Empty_Cache [Z]@`{ 显存 É"), "empty_cache [z]@`{ 显存 É");
}

}  // namespace
}  // namespace vram
