#include "cli/console.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace vram::cli {
namespace {

TEST(Repaint, GoesBackOverTheTextBefore) {
  Repaint repaint;
  EXPECT_EQ(repaint.next("a\nb\n", 24, 80), "a\x1b[K\nb\x1b[K\n\x1b[J");
  EXPECT_EQ(repaint.next("c\n", 24, 80), "\x1b[2A\rc\x1b[K\n\x1b[J");
  EXPECT_EQ(repaint.next("d\n", 24, 80), "\x1b[1A\rd\x1b[K\n\x1b[J");
}

TEST(Repaint, CountsWhatDoesNotFit) {
  Repaint repaint;
  EXPECT_EQ(repaint.next("a\nb\nc\nd\n", 4, 80), "a\x1b[K\nb\x1b[K\n(2 more lines)\x1b[K\n\x1b[J");
  EXPECT_EQ(repaint.next("a\nb\nc\n", 4, 80), "\x1b[3A\ra\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J");
  EXPECT_EQ(Repaint().next("a\nb\n", 1, 80), "(2 more lines)\x1b[K\n\x1b[J");
}

TEST(Repaint, CutsLinesThatATerminalWouldWrap) {
  Repaint repaint;
  EXPECT_EQ(repaint.next("abcdef\n", 24, 4), "abcd\x1b[K\n\x1b[J");
  EXPECT_EQ(repaint.next("\x1b[1mab█▄ef\x1b[0m\n", 24, 4),
            "\x1b[1A\r\x1b[1mab█▄\x1b[0m\x1b[K\n\x1b[J");
  EXPECT_EQ(Repaint().next("界界界\n", 24, 5), "界界\x1b[K\n\x1b[J");
}

TEST(Repaint, WipesAScreenOfAnotherShape) {
  for (const auto& [rows, columns] : {std::pair(24, 79), std::pair(25, 80)}) {
    Repaint repaint;
    (void)repaint.next("a\n", 24, 80);
    EXPECT_EQ(repaint.next("b\n", rows, columns), "\x1b[H\x1b[2Jb\x1b[K\n\x1b[J");
  }
}

}  // namespace
}  // namespace vram::cli
