#include "trace/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <random>
#include <string>
#include <vector>

namespace vram::trace {
namespace {

TEST(StringTable, GivesOneIdPerText) {
  StringTable table;
  EXPECT_EQ(table[0], "");
  EXPECT_EQ(table.intern(""), 0U);
  std::vector<StringId> ids;
  for (int i = 0; i < 5000; ++i) ids.push_back(table.intern("text " + std::to_string(i)));
  for (int i = 0; i < 5000; ++i) {
    const std::string text = "text " + std::to_string(i);
    EXPECT_EQ(table.intern(text), ids[static_cast<size_t>(i)]);
    EXPECT_EQ(table[ids[static_cast<size_t>(i)]], text);
  }
  EXPECT_EQ(table.size(), 5001U);
}

TEST(StringTable, TellsTextsApartThatShareAPrefixOfZeros) {
  StringTable table;
  const std::string_view one("\0", 1);
  const std::string_view two("\0\0", 2);
  EXPECT_NE(table.intern(one), table.intern(two));
}

TEST(FrameTable, EveryFieldCounts) {
  FrameTable table;
  const std::array<Frame, 6> frames = {
      Frame{},          Frame{.function = 1}, Frame{.file = 1},
      Frame{.line = 1}, Frame{.fx_node = 1},  Frame{.fx_trace = 1}};
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(table.intern(frames[i]), i);
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(table.intern(frames[i]), i);
}

TEST(StackTable, OrderAndLengthCount) {
  StackTable table;
  EXPECT_EQ(table.intern({}), 0U);
  const std::array<FrameId, 3> up = {1, 2, 3};
  const std::array<FrameId, 3> down = {3, 2, 1};
  const StackId first = table.intern(up);
  EXPECT_NE(table.intern(down), first);
  EXPECT_NE(table.intern(std::span(up).first(2)), first);
  EXPECT_EQ(table.intern(up), first);
  EXPECT_TRUE(std::ranges::equal(table[first], up));
}

TEST(ContextTable, EveryFieldCounts) {
  ContextTable table;
  EXPECT_EQ(table.intern({}), 0U);
  EXPECT_EQ(table.intern({.compile_id = 1}), 1U);
  EXPECT_EQ(table.intern({.user_metadata = 1}), 2U);
  EXPECT_EQ(table.intern({.category = 1}), 3U);
  EXPECT_EQ(table.intern({.forward_stack = 1}), 4U);
  EXPECT_EQ(table.intern({.user_metadata = 1}), 2U);
}

TEST(StreamTable, ZeroIsTheDefaultAndTheLastIdTakesTheRest) {
  StreamTable table;
  EXPECT_EQ(table.intern(0), 0U);
  for (uint64_t handle = 1; handle < 70'000; ++handle) {
    EXPECT_EQ(table.intern(handle << 8), std::min<uint64_t>(handle, 0xfffe));
  }
  EXPECT_EQ(table[1], 256U);
}

TEST(PoolTable, DefaultFirst) {
  PoolTable table;
  EXPECT_EQ(table.intern({0, 0}), 0U);
  EXPECT_EQ(table.intern({0, 1}), 1U);
  EXPECT_EQ(table.intern({1, 0}), 2U);
  EXPECT_EQ(table[1], (PoolName{0, 1}));
  EXPECT_EQ(table[kUnknownPool], (PoolName{}));
}

TEST(PoolTable, FindsOneOfManyWithoutASearchThroughAll) {
  PoolTable table;
  for (uint64_t i = 0; i < 70'000; ++i)
    ASSERT_EQ(table.intern({i, 0}), std::min<uint64_t>(i, kUnknownPool));
  const std::clock_t begin = std::clock();  // of this process alone
  for (int i = 0; i < 1'000'000; ++i) ASSERT_EQ(table.intern({60'000, 0}), 60'000U);
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace vram::trace
