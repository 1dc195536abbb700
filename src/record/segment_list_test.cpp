#include "record/segment_list.hpp"

#include "record/board.hpp"
#include "record/page_requester.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace vram::record {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

class SegmentListTest : public ::testing::Test {
 protected:
  SegmentListTest() { std::filesystem::create_directories(folder_); }
  ~SegmentListTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ + "/list"; }
  static Descriptor opened(const std::string& path) {
    return Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  [[nodiscard]] Result<SegmentList> read_back() const { return read_segments(opened(path())); }

  const std::string folder_ = "/dev/shm/vram-test-segments-" + std::to_string(getpid());
  const std::vector<ListedSegment> segments_ = {
      {0, 512 * kMebibyte, 20 * kMebibyte, 0, kSegmentExpandable, 3},
      {1, 1024 * kMebibyte, 2 * kMebibyte, 7, kSegmentSmall | kSegmentPrivate, 1}};
  const std::vector<ListedBlock> blocks_ = {
      {4 * kMebibyte, 4 * kMebibyte - 100, BlockState::kAllocated},
      {15 * kMebibyte, 0, BlockState::kFree},
      {1 * kMebibyte, 1000, BlockState::kHeld},
      {2 * kMebibyte, 2 * kMebibyte, BlockState::kAllocated}};
};

TEST_F(SegmentListTest, IsReadAsItWasWritten) {
  const auto bytes = write_segments(path(), segments_, blocks_);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(*bytes, std::filesystem::file_size(path()));
  const auto list = read_back();
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(list->totals.segments, 2u);
  EXPECT_EQ(list->totals.blocks, 4u);
  EXPECT_EQ(list->totals.bytes, 22 * kMebibyte);
  EXPECT_GT(list->taken_ns, 0u);
  ASSERT_EQ(list->segments.size(), 2u);
  EXPECT_EQ(list->segments[1].address, 1024 * kMebibyte);
  EXPECT_EQ(list->segments[1].kinds, kSegmentSmall | kSegmentPrivate);
  ASSERT_EQ(list->blocks.size(), 4u);
  EXPECT_EQ(list->blocks[2].state, BlockState::kHeld);
  EXPECT_EQ(list->blocks[0].requested_bytes, 4 * kMebibyte - 100);
}

TEST_F(SegmentListTest, AProcessWithoutSegmentsHasAnEmptyList) {
  ASSERT_TRUE(write_segments(path(), {}, {}));
  EXPECT_TRUE(read_back().value().segments.empty());
}

TEST_F(SegmentListTest, WhatDoesNotAddUpIsNotWritten) {
  auto segments = segments_;
  segments[0].size_bytes += 1;
  EXPECT_EQ(write_segments(path(), segments, blocks_).error().code, Code::kBadInput);
  segments = segments_;
  segments[1].block_count = 2;
  EXPECT_EQ(write_segments(path(), segments, blocks_).error().code, Code::kBadInput);
  segments[1].block_count = 0;
  segments[1].size_bytes = 0;
  EXPECT_EQ(write_segments(path(), segments, blocks_).error().code, Code::kBadInput);
  auto blocks = blocks_;
  blocks[0].requested_bytes = blocks[0].size_bytes + 1;
  EXPECT_EQ(write_segments(path(), segments_, blocks).error().code, Code::kBadInput);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(SegmentListTest, ALongListLosesItsLastSegmentsAndCountsThem) {
  constexpr uint32_t kPerSegment = 1000;
  constexpr size_t kSegments = 100;
  std::vector<ListedSegment> segments(kSegments);
  for (size_t i = 0; i < kSegments; ++i)
    segments[i] = {0, i << 30, kPerSegment * 512, 0, 0, kPerSegment};
  const std::vector<ListedBlock> blocks(kSegments * kPerSegment,
                                        {512, 512, BlockState::kAllocated});
  ASSERT_LE(write_segments(path(), segments, blocks).value(), 2'000'000u);
  const SegmentList list = read_back().value();
  EXPECT_EQ(list.segments.size(), kMaxListedBlocks / kPerSegment);
  EXPECT_EQ(list.blocks.size(), list.segments.size() * kPerSegment);
  EXPECT_EQ(list.totals.segments, kSegments);
  EXPECT_EQ(list.totals.blocks, blocks.size());
  EXPECT_EQ(list.totals.bytes, blocks.size() * 512);
}

// Another program may have written it.
TEST_F(SegmentListTest, NoChangedByteLeadsToAListThatDoesNotAddUp) {
  ASSERT_TRUE(write_segments(path(), segments_, blocks_));
  std::ifstream file(path(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string text = whole;
      text[at] = static_cast<char>(text[at] ^ change);
      std::ofstream(path(), std::ios::binary | std::ios::trunc) << text;
      const auto list = read_back();
      if (!list) continue;
      uint64_t in_segments = 0;
      uint64_t in_blocks = 0;
      for (const ListedSegment& each : list->segments) in_segments += each.size_bytes;
      for (const ListedBlock& each : list->blocks) in_blocks += each.size_bytes;
      EXPECT_EQ(in_segments, in_blocks) << at;
      EXPECT_LE(in_segments, list->totals.bytes) << at;
    }
  }
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << whole.substr(0, bytes);
    EXPECT_EQ(read_back().error().code, Code::kBadInput) << bytes;
  }
  std::ofstream(path(), std::ios::binary | std::ios::trunc) << whole << "x";
  EXPECT_THAT(read_back().error().message, HasSubstr("another size"));
}

TEST_F(SegmentListTest, IsAnAnswerToARequest) {
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  Board board = Board::open(folder_).value();
  const auto self = static_cast<uint32_t>(getpid());
  EXPECT_THAT(PageRequester::start(folder_, self, {}, BoardSlot::kSegments).error().message,
              HasSubstr("does not list its segments"));
  board.set_lists_segments();
  auto asked = PageRequester::start(folder_, self, {}, BoardSlot::kSegments).value();
  EXPECT_FALSE(board.request(BoardSlot::kTrim));
  EXPECT_FALSE(board.request(BoardSlot::kRecord));
  const PageRequest request = board.request(BoardSlot::kSegments).value();
  ASSERT_TRUE(board.answer_segments(request, segments_, blocks_));
  EXPECT_EQ(asked.poll(), RequestState::kAnswered);
  const std::string file = answered_segments(folder_, self, asked.number());
  EXPECT_EQ(asked.bytes(), std::filesystem::file_size(file));
  EXPECT_EQ(read_segments(opened(file)).value().blocks.size(), blocks_.size());
  board.withdraw();
  EXPECT_FALSE(std::filesystem::exists(file)) << "nobody has taken it";
}

TEST_F(SegmentListTest, ARequestThatWasTakenBackLeavesNoFile) {
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  Board board = Board::open(folder_).value();
  board.set_lists_segments();
  const auto self = static_cast<uint32_t>(getpid());
  auto asked = PageRequester::start(folder_, self, {}, BoardSlot::kSegments).value();
  const PageRequest request = board.request(BoardSlot::kSegments).value();
  EXPECT_EQ(asked.withdraw(), RequestState::kAsked);
  ASSERT_TRUE(board.answer_segments(request, segments_, blocks_));
  EXPECT_FALSE(std::filesystem::exists(answered_segments(folder_, self, request.number)));
}

}  // namespace
}  // namespace vram::record
