#include "base/varint.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>
#include <vector>

namespace vram {
namespace {

std::vector<uint8_t> coded(uint64_t value) {
  PodVector<uint8_t> out;
  put_varint(out, value);
  return {out.begin(), out.end()};
}

TEST(Varint, WritesTheBytesOfLeb128) {
  EXPECT_EQ(coded(0), (std::vector<uint8_t>{0x00}));
  EXPECT_EQ(coded(127), (std::vector<uint8_t>{0x7f}));
  EXPECT_EQ(coded(300), (std::vector<uint8_t>{0xac, 0x02}));
  EXPECT_EQ(coded(~uint64_t{0}).size(), kMaxVarintBytes);
}

TEST(Varint, ReadsBackEveryBitLength) {
  PodVector<uint8_t> bytes;
  std::vector<uint64_t> values;
  for (unsigned bit = 0; bit < 64; ++bit)
    for (const uint64_t value :
         {uint64_t{1} << bit, (uint64_t{1} << bit) - 1, ~uint64_t{0} >> bit}) {
      values.push_back(value);
      put_varint(bytes, value);
    }
  VarintReader reader(bytes.span());
  for (const uint64_t value : values) EXPECT_EQ(reader.get(), value);
  EXPECT_TRUE(reader.done());
}

TEST(Varint, SignedNumbersKeepTheirSign) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{-64}, kMin, kMax})
    EXPECT_EQ(unzigzag(zigzag(value)), value);
  EXPECT_EQ(zigzag(-1), 1u);
  EXPECT_EQ(zigzag(1), 2u);
  EXPECT_EQ(wrapping_sum(5, wrapping_difference(0, 5)), 0u);
  EXPECT_EQ(wrapping_sum(0, wrapping_difference(~uint64_t{0}, 0)), ~uint64_t{0});
}

TEST(Varint, RefusesNumbersPastTheEndAndPast64Bits) {
  const std::vector<uint8_t> cut = {0x80, 0x80};
  VarintReader reader(cut);
  EXPECT_EQ(reader.get(), 0u);
  EXPECT_TRUE(reader.failed());
  EXPECT_FALSE(reader.done());

  std::vector<uint8_t> too_long(9, 0xff);
  too_long.push_back(0x02);
  VarintReader wide(too_long);
  EXPECT_EQ(wide.get(), 0u);
  EXPECT_TRUE(wide.failed());
}

TEST(Varint, CountsAreBoundedByTheBytesLeft) {
  const std::vector<uint8_t> bytes = {0x03, 0x01, 0x01};
  VarintReader reader(bytes);
  EXPECT_EQ(reader.get_count(), 0u);
  EXPECT_TRUE(reader.failed());
  VarintReader taker(bytes);
  EXPECT_EQ(taker.take(2).size(), 2u);
  EXPECT_TRUE(taker.take(2).empty());
  EXPECT_TRUE(taker.failed());
}

TEST(Checksum, IsCrc32c) {
  const std::string_view text = "123456789";  // the check value of every CRC catalogue
  EXPECT_EQ(crc32c({reinterpret_cast<const uint8_t*>(text.data()), text.size()}), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

}  // namespace
}  // namespace vram
