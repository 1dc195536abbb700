// Chunks: bytes worked out by hand (docs/history.md has the same example), what goes in comes out,
// and bytes that no encoder made are an error and nothing worse.
#include "history/chunk.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vram::history {
namespace {

using Bytes = std::vector<uint8_t>;

Chunk chunk_of(const std::vector<int64_t>& times_ms, uint32_t metric,
               const std::vector<int64_t>& values) {
  Chunk chunk;
  for (size_t i = 0; i < times_ms.size(); ++i) {
    chunk.add_row(times_ms[i]);
    chunk.last_of(metric).add(Sums::of(values[i]));
  }
  return chunk;
}

// Any numbers, those that shifts and differences find hardest among them.
int64_t any_number(std::mt19937_64& random) {
  switch (random() % 5) {
    case 0:
      return 0;
    case 1:
      return static_cast<int64_t>(random() % 100);
    case 2:
      return static_cast<int64_t>(random() << 40);
    case 3:
      return random() % 2 == 0 ? INT64_MAX : INT64_MIN;
    default:
      return static_cast<int64_t>(random());
  }
}

Chunk any_chunk(std::mt19937_64& random, bool summed) {
  Chunk chunk;
  const size_t rows = 1 + random() % 70;
  const size_t columns = 1 + random() % 5;
  for (size_t row = 0; row < rows; ++row) {
    chunk.add_row(any_number(random));
    for (uint32_t metric = 1; metric <= columns; ++metric) {
      const bool is_missing = row > 0 && random() % 3 == 0;
      Sums& cell = chunk.last_of(metric);
      if (is_missing) continue;
      cell = Sums::of(any_number(random));
      if (summed) cell = {cell.minimum, any_number(random), any_number(random), 1 + random() % 90};
    }
  }
  return chunk;
}

TEST(ChunkTest, BytesAreAsDocumented) {
  const Bytes by_hand = {
      1,                      // samples
      3,                      // rows
      3, 0,    0, 0xfa, 1,    // times in units of 2^3 ms: a gap of 0, 0 more of these; one of 125,
      0, 0,                   // another that is no different, 0 more of these
      1,                      // column
      5, 7,                   // metric 5 in 7 bytes
      3,                      // 3 rows are known
      0, 0xb4, 1, 0,    0, 2  // in units of 1: 90; no different, 0 more of these; 1 more
  };
  const Chunk chunk = chunk_of({0, 1000, 2000}, 5, {90, 90, 91});
  EXPECT_EQ(encode(chunk, false), by_hand);
  EXPECT_EQ(decode(by_hand).value(), chunk);
}

TEST(ChunkTest, SumsAreAsDocumented) {
  const Bytes by_hand = {
      2, 1,           // a row of sums
      0, 0,    0,     // at 0 ms
      1, 5,    9, 1,  // a column, metric 5 in 9 bytes, known in this row
      1, 0x0a,        // minimum 5 << 1
      0, 6,           // count 3
      1, 0x1e,        // maximum 15 << 1 above the minimum
      1, 0x1e         // sum 15 << 1 above 3 * 10
  };
  Chunk chunk;
  chunk.add_row(0);
  for (const int64_t value : {10, 40, 10}) chunk.last_of(5).add(Sums::of(value));
  EXPECT_EQ(encode(chunk, true), by_hand);
  EXPECT_EQ(decode(by_hand).value(), chunk);
}

TEST(ChunkTest, RowsWithoutFiguresStayUnknown) {
  Chunk chunk = chunk_of({0, 1}, 1, {7, 8});
  chunk.add_row(2);
  chunk.last_of(2).add(Sums::of(9));
  const Chunk back = decode(encode(chunk, false)).value();
  EXPECT_EQ(back.columns[0].rows[2].count, 0u);
  EXPECT_EQ(back.columns[1].rows[0].count, 0u);
  EXPECT_EQ(back.columns[1].rows[2], Sums::of(9));
}

TEST(ChunkTest, WhatGoesInComesOut) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 2000; ++i) {
    const bool summed = i % 2 == 0;
    const Chunk chunk = any_chunk(random, summed);
    const auto back = decode(encode(chunk, summed));
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(*back, chunk);
  }
}

TEST(ChunkTest, OneColumnIsTheSameAlone) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 200; ++i) {
    const Chunk chunk = any_chunk(random, true);
    const Chunk alone = decode(encode(chunk, true), 1).value();
    ASSERT_EQ(alone.columns.size(), 1u);
    EXPECT_EQ(alone.columns[0], chunk.columns[0]);
  }
  EXPECT_TRUE(decode(encode(chunk_of({0}, 1, {5}), false), 2).value().columns.empty());
}

TEST(ChunkTest, EachTruncationIsAnError) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 50; ++i) {
    const Bytes bytes = encode(any_chunk(random, i % 2 == 0), i % 2 == 0);
    for (size_t length = 0; length < bytes.size(); ++length)
      ASSERT_FALSE(decode({bytes.data(), length})) << length << " of " << bytes.size();
  }
}

TEST(ChunkTest, HostileBytesAreAnErrorOrAChunkAndNothingWorse) {
  std::mt19937_64 random(14);
  size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = encode(any_chunk(random, i % 2 == 0), i % 2 == 0);
    for (int change = 0; change < 3; ++change)
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    const auto decoded = decode(bytes);
    refused += decoded ? 0 : 1;
    if (!decoded) continue;
    ASSERT_LE(decoded->times_ms.size(), kMaxRows);
    for (const Column& column : decoded->columns)
      ASSERT_EQ(column.rows.size(), decoded->times_ms.size());
  }
  EXPECT_GT(refused, 1000u);
}

TEST(ChunkTest, MoreRowsThanAChunkMayHaveAreRefused) {
  Bytes bytes = {1, 0xff, 0xff, 0x03, 0, 0, 0xfe, 0xff, 0x03, 0};  // 65535 times, all 0
  EXPECT_FALSE(decode(bytes));
  bytes = {1, 0x80, 0x20, 0, 0, 0xff, 0x1f, 0};  // kMaxRows of them
  EXPECT_EQ(decode(bytes).value().times_ms.size(), kMaxRows);
}

TEST(SumsTest, WhatOverflowsIsLeftOut) {
  Sums sums = Sums::of(INT64_MAX - 1);
  sums.add(Sums::of(1));
  sums.add(Sums::of(1));
  EXPECT_EQ(sums, (Sums{1, INT64_MAX - 1, INT64_MAX, 2}));
}

}  // namespace
}  // namespace vram::history
