// /proc/<pid>/stat as the kernel writes it, with names that processes choose to mislead, and cut
// off anywhere.
#include "base/process_stat.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vram {
namespace {

// Fields 3 to 22, then more, as Linux 6.1 wrote them of a sleeping shell.
const std::string kAfterName =
    ") S 4131 4137 4137 34816 4137 4194304 8012 21077 0 9 4 2 21 13 20 0 1 0 987654 7929856 1331\n";

TEST(ProcessStat, NameParentAndStartAreRead) {
  const std::string text = "4137 (bash" + kAfterName;
  const auto stat = parse_process_stat(text);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->name, "bash");
  EXPECT_EQ(stat->parent_pid, 4131U);
  EXPECT_EQ(stat->start_ticks, 987654U);
}

TEST(ProcessStat, ANameThatLooksLikeFieldsMisleadsNobody) {
  const std::string text = "4137 (a) R 1 (x" + kAfterName;
  const auto stat = parse_process_stat(text);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->name, "a) R 1 (x");
  EXPECT_EQ(stat->parent_pid, 4131U);
}

// As Linux 6.1 wrote them of a process whose parent had not waited for it, and of one whose first
// thread had ended before the other.
TEST(ProcessStat, AProcessHasEndedWhenAllItsThreadsHave) {
  const auto has_ended = [](const std::string& state, const std::string& threads) {
    const std::string text = "7 (python3) " + state + " 1 7 7 0 -1 4227084 49 0 1 0 0 0 0 0 20 0 " +
                             threads + " 0 4951697 0 0\n";
    const auto stat = parse_process_stat(text);
    return stat.has_value() && stat->has_ended;
  };
  EXPECT_TRUE(has_ended("Z", "1"));
  EXPECT_TRUE(has_ended("X", "0"));
  EXPECT_FALSE(has_ended("Z", "2"));
  EXPECT_FALSE(has_ended("S", "1"));
  EXPECT_FALSE(parse_process_stat("4137 (Z) X" + kAfterName).value().has_ended)
      << "its name says nothing";
}

TEST(ProcessStat, ATextThatEndsBeforeTheStartIsNothing) {
  const std::string text = "4137 (bash" + kAfterName;
  const size_t whole = text.find("987654") + 7;  // with the space that ends it
  for (size_t length = 0; length < whole; ++length) {
    EXPECT_FALSE(parse_process_stat(std::string_view(text).substr(0, length)).has_value());
  }
  EXPECT_TRUE(parse_process_stat(std::string_view(text).substr(0, whole)).has_value());
}

TEST(ProcessStat, WhatIsNoNumberIsNothing) {
  EXPECT_FALSE(parse_process_stat("1 (a) S -1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5 0 \n"));
  EXPECT_FALSE(parse_process_stat("1 (a) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5x 0 \n"));
  EXPECT_FALSE(parse_process_stat(") ("));
}

}  // namespace
}  // namespace vram
