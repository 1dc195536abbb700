// A recording with a limit ends as one without: what its last file says of the end is the same, and
// its events lead there.
#include "explain/history/history.hpp"
#include "explain/testing/caching_allocator.hpp"
#include "record/file/recording.hpp"
#include "trace/open.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <stdexcept>
#include <tuple>
#include <unistd.h>

namespace vram::record {
namespace {

using explain::testing::CachingAllocator;
using trace::EventKind;

constexpr uint64_t kLimitBytes = 48 * kKiB;

Op op_of(EventKind kind) {
  switch (kind) {
    case EventKind::kAlloc:
      return Op::kAlloc;
    case EventKind::kFreeRequested:
      return Op::kFreeRequested;
    case EventKind::kFreeCompleted:
      return Op::kFreeCompleted;
    case EventKind::kSegmentAlloc:
      return Op::kSegmentAlloc;
    case EventKind::kSegmentFree:
      return Op::kSegmentFree;
    case EventKind::kSegmentMap:
      return Op::kSegmentMap;
    default:
      return Op::kSegmentUnmap;
  }
}

Op op_of(trace::BlockState state) {
  if (state == trace::BlockState::kInactive) return Op::kHeldFree;
  return state == trace::BlockState::kAllocated ? Op::kHeldBlock : Op::kHeldPending;
}

// As PyTorch's tap says it: what was asked for, where that leads to the block's size.
uint64_t recorded_bytes(const trace::Block& block) {
  const uint64_t rounded = explain::AllocatorRules().round(block.requested_bytes);
  return rounded == block.size_bytes ? block.requested_bytes : block.size_bytes;
}

// A program's requests to an allocator, and what the allocator says of them.
class Program {
 public:
  Program(uint32_t seed, bool is_expandable)
      : random_(seed), is_expandable_(is_expandable), allocator_({}, is_expandable) {}

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      if (!awaited_.empty() && random_() % 15 == 0) allocator_.complete(take_any(awaited_));
      if (live_.empty() || (live_.size() < 150 && random_() % 2 == 0)) {
        live_.push_back(allocator_.allocate(size(), static_cast<trace::StreamId>(random_() % 2)));
      } else {
        const CachingAllocator::Block block = take_any(live_);
        const bool is_awaited = random_() % 8 == 0;
        allocator_.free(block, is_awaited);
        if (is_awaited) awaited_.push_back(block);
      }
      if (i % 2000 == 0) allocator_.empty_cache();
    }
  }

  // What is there, and from then on what happens, and what is held at the end.
  std::vector<Record> recorded(int calls) {
    std::vector<Record> records = found();
    allocator_.record_into(&trace_);
    run(calls);
    for (const trace::Event& event : trace_.events) {
      records.push_back({.time_ns = event.time_ns,
                         .address = event.address,
                         .size_bytes = event.size_bytes,
                         .stream = event.stream,
                         .op = op_of(event.kind)});
    }
    for_each_part([&](const Record& segment, const trace::Block* block) {
      records.push_back(segment);
      records.back().op = block != nullptr ? op_of(block->state) : Op::kHeldSegment;
    });
    return records;
  }

 private:
  std::vector<Record> found() {
    std::vector<Record> records;
    for_each_part([&](Record part, const trace::Block* block) {
      part.op = is_expandable_ ? Op::kSegmentMap : Op::kSegmentAlloc;
      if (block != nullptr) part.op = Op::kFound;
      if (block != nullptr) part.size_bytes = recorded_bytes(*block);
      if (block == nullptr || block->state != trace::BlockState::kInactive) records.push_back(part);
      part.op = Op::kFreeRequested;
      if (block != nullptr && block->state == trace::BlockState::kPendingFree)
        records.push_back(part);
    });
    return records;
  }

  template <typename Say>
  void for_each_part(const Say& say) {
    trace::DeviceTrace now;
    allocator_.write_end_state(now);
    for (const trace::Segment& segment : now.segments) {
      Record part{
          .address = segment.address, .size_bytes = segment.size_bytes, .stream = segment.stream};
      say(part, nullptr);
      for (uint32_t k = 0; k < segment.block_count; ++k) {
        const trace::Block& block = now.blocks[segment.first_block + k];
        part.address = block.address;
        part.size_bytes = block.size_bytes;
        say(part, &block);
      }
    }
  }

  CachingAllocator::Block take_any(std::vector<CachingAllocator::Block>& blocks) {
    std::swap(blocks[random_() % blocks.size()], blocks.back());
    const CachingAllocator::Block block = blocks.back();
    blocks.pop_back();
    return block;
  }
  // Remainders of up to 1 MiB stay with large blocks.
  uint64_t size() {
    const uint64_t most = random_() % 3 == 0 ? 20 * kMiB : random_() % 2 == 0 ? 3 * kMiB : 100'000;
    return 1 + random_() % most;
  }

  std::mt19937 random_;
  bool is_expandable_;
  CachingAllocator allocator_;
  trace::Trace trace_;
  std::vector<CachingAllocator::Block> live_;
  std::vector<CachingAllocator::Block> awaited_;
};

// Ends the test: what follows would fail for the same reason.
void expect_done(const Result<>& done) {
  if (!done) throw std::runtime_error(done.error().message);
}

class RotationTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The last file.
  trace::Trace record(const std::vector<Record>& records, uint64_t limit_bytes,
                      size_t flushed_every = 500) {
    const std::string path = (folder_ / "run.vtrace").string();
    const auto recording =
        Recording::create({.path = path,
                           .limit_bytes = limit_bytes,
                           .facts = {{Fact::Kind::kAbout, "recorder", "vram"},
                                     {Fact::Kind::kSetting, "expandable_segments",
                                      GetParam() ? "True" : "False"}}})
            .value();
    for (size_t i = 0; i < records.size(); ++i) {
      expect_done(recording->add(records[i]));
      if (i % flushed_every == 0) expect_done(recording->flush());
    }
    expect_done(recording->flush());
    expect_done(recording->finish());
    written_bytes_ = recording->written_bytes();
    return trace::open_trace(path).value();
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("vram-rotation-" + std::to_string(getpid()));
  uint64_t written_bytes_ = 0;
};

using Row = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, trace::BlockState>;

std::vector<Row> end_of(const trace::Trace& trace) {
  std::vector<Row> rows;
  const trace::DeviceTrace& device = trace.devices.at(0);
  for (const trace::Segment& segment : device.segments) {
    rows.emplace_back(segment.address, segment.size_bytes, trace.tables.streams[segment.stream],
                      segment.claimed_requested_bytes, trace::BlockState::kInactive);
    for (uint32_t k = 0; k < segment.block_count; ++k) {
      const trace::Block& block = device.blocks[segment.first_block + k];
      rows.emplace_back(block.address, block.size_bytes, 0, block.requested_bytes, block.state);
    }
  }
  return rows;
}

void expect_exact(const trace::Trace& trace) {
  ASSERT_TRUE(trace.devices.at(0).has_end_state);
  const auto verdict = explain::replay_history(trace, trace.devices[0]).verdict;
  EXPECT_EQ(verdict.confidence, explain::Confidence::kExact) << verdict.detail;
}

TEST_P(RotationTest, TheLastFileEndsAsTheWholeRecordingDoes) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Record> records = Program(seed, GetParam()).recorded(20'000);
    const trace::Trace whole = record(records, 0);
    const trace::Trace last = record(records, kLimitBytes);
    EXPECT_GT(written_bytes_, 3 * kLimitBytes / 2) << "begun anew several times";
    EXPECT_LT(last.events.size(), whole.events.size() / 2);
    EXPECT_EQ(end_of(last), end_of(whole));
    expect_exact(whole);
    expect_exact(last);
  }
}

TEST_P(RotationTest, WhatIsThereWhenARecordingBeginsMayLieAnywhere) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Program program(seed, GetParam());
    program.run(1000);
    expect_exact(record(program.recorded(100), 0));
  }
}

TEST_P(RotationTest, AFileBegunAfterTheEndStateWasSaidHasItToo) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Record> records = Program(seed, GetParam()).recorded(3'000);
    const trace::Trace whole = record(records, 0);
    const trace::Trace last = record(records, 1, records.size());
    EXPECT_LT(last.events.size(), 400u) << "what is there, and no more";
    EXPECT_EQ(end_of(last), end_of(whole));
    expect_exact(last);
  }
}

INSTANTIATE_TEST_SUITE_P(Segments, RotationTest, testing::Bool());

}  // namespace
}  // namespace vram::record
