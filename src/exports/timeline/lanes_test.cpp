#include "exports/timeline/lanes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace vram::exports {
namespace {

using explain::History;
using explain::Lifetime;

Lifetime block(uint64_t bytes, uint32_t alloc_event, uint32_t free_event) {
  Lifetime life;
  life.block_bytes = bytes;
  life.alloc_event = alloc_event;
  life.free_completed_event = free_event;
  return life;
}

TEST(Lanes, TheLowestFreeLaneComesFirst) {
  Lanes lanes;
  EXPECT_EQ(lanes.take(), 0U);
  EXPECT_EQ(lanes.take(), 1U);
  EXPECT_EQ(lanes.take(), 2U);
  lanes.give_back(1);
  lanes.give_back(0);
  EXPECT_EQ(lanes.take(), 0U);
  EXPECT_EQ(lanes.take(), 1U);
  EXPECT_EQ(lanes.take(), 3U);
}

TEST(Lanes, AllBlocksAreDrawnIfTheyFit) {
  History history;
  history.lifetimes.push_back(block(512, explain::kBeforeRecording, 1));
  history.lifetimes.push_back(block(1024, 0, explain::kNever));
  EXPECT_EQ(smallest_drawn_bytes(history, 2, 2, 2), 0U);
  EXPECT_EQ(smallest_drawn_bytes({}, 0, 1, 1), 0U);
}

TEST(Lanes, AFreeMakesRoomForABlockAtTheSameEvent) {
  History history;
  history.lifetimes.push_back(block(512, 0, 1));
  history.lifetimes.push_back(block(512, 1, explain::kNever));
  EXPECT_EQ(smallest_drawn_bytes(history, 2, 1, 2), 0U);
}

TEST(Lanes, BlocksOfOneSizeAreDrawnTogetherOrNotAtAll) {
  History history;
  for (int i = 0; i < 3; ++i) history.lifetimes.push_back(block(512, 0, explain::kNever));
  EXPECT_EQ(smallest_drawn_bytes(history, 1, 2, 10), 513U);
}

// The most blocks alive at once, counted event by event.
uint64_t widest(const History& history, uint64_t events, uint64_t min_bytes) {
  uint64_t most = 0;
  for (uint64_t event = 0; event < events; ++event) {
    most = std::max(most, static_cast<uint64_t>(
                              std::ranges::count_if(history.lifetimes, [&](const Lifetime& life) {
                                return life.block_bytes >= min_bytes &&
                                       history.active_at(life, static_cast<int64_t>(event));
                              })));
  }
  return most;
}

TEST(Lanes, TheSmallestSizeIsTheSmallestThatFits) {
  std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): repeatable
  constexpr uint32_t kEvents = 60;
  for (int round = 0; round < 50; ++round) {
    History history;
    for (uint32_t i = 0; i < 40; ++i) {
      const auto begin = static_cast<uint32_t>(random() % (kEvents - 1));
      const auto end = static_cast<uint32_t>(begin + 1 + random() % (kEvents - begin));
      history.lifetimes.push_back(
          block(512 * (1 + random() % 9), begin, end >= kEvents ? explain::kNever : end));
    }
    const auto lanes = static_cast<uint32_t>(1 + random() % 12);
    const uint64_t most = 5 + random() % 40;
    const auto fits = [&](uint64_t min_bytes) {
      const auto drawn = static_cast<uint64_t>(std::ranges::count_if(
          history.lifetimes, [&](const Lifetime& l) { return l.block_bytes >= min_bytes; }));
      return drawn <= most && widest(history, kEvents, min_bytes) <= lanes;
    };
    const uint64_t found = smallest_drawn_bytes(history, kEvents, lanes, most);
    EXPECT_TRUE(fits(found));
    uint64_t next = 0;  // the largest size that is not drawn
    for (const Lifetime& life : history.lifetimes)
      if (life.block_bytes < found) next = std::max(next, life.block_bytes);
    EXPECT_TRUE(found == 0 || !fits(next)) << found;
  }
}

}  // namespace
}  // namespace vram::exports
