#include "explain/history/history.hpp"

#include "base/bytes.hpp"
#include "explain/moment/curve.hpp"
#include "explain/testing/caching_allocator.hpp"
#include "explain/testing/recording.hpp"
#include "trace/lost_events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace vram::explain {
namespace {

using testing::CachingAllocator;
using testing::Recording;

constexpr uint64_t kBase = uint64_t{1} << 40;

History replay(Recording& recording) {
  return replay_history(recording.trace(), recording.device());
}

TEST(History, FollowsABlockFromAllocationToFree) {
  Recording recording;
  recording.segment(kBase, 20 * kMiB).alloc(kBase, 5 * kMiB + 1);
  recording.request(kBase, 5 * kMiB + 1).complete(kBase, 5 * kMiB + 1);
  recording.end_segment(kBase, {{20 * kMiB}});
  const History history = replay(recording);
  ASSERT_EQ(history.lifetimes.size(), 1u);
  EXPECT_EQ(history.lifetimes[0].block_bytes, 5 * kMiB + 512);
  EXPECT_EQ(history.lifetimes[0].requested_bytes, 5 * kMiB + 1);
  EXPECT_EQ(history.lifetimes[0].alloc_event, 1u);
  EXPECT_EQ(history.lifetimes[0].free_requested_event, 2u);
  EXPECT_EQ(history.lifetimes[0].free_completed_event, 3u);
  EXPECT_EQ(history.lifetime_of_event[0], kNoLifetime);
  EXPECT_EQ(history.lifetime_of_event[3], 0u);
  EXPECT_EQ(history.verdict.confidence, Confidence::kExact) << history.verdict.detail;
}

TEST(History, ACompletionAloneIsAWholeFree) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).alloc(kBase, 512).complete(kBase, 512);
  recording.end_segment(kBase, {{2 * kMiB}});
  const History history = replay(recording);
  EXPECT_EQ(history.lifetimes[0].free_requested_event, kNever);
  EXPECT_EQ(history.lifetimes[0].free_completed_event, 2u);
  EXPECT_EQ(history.verdict.confidence, Confidence::kExact) << history.verdict.detail;
}

TEST(History, ARecordingWithoutCompletionsCompletesOnRequest) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).alloc(kBase, 512).request(kBase, 512);
  recording.end_segment(kBase, {{2 * kMiB}});
  const History history = replay(recording);
  EXPECT_EQ(history.lifetimes[0].free_completed_event, 2u);
  EXPECT_EQ(history.verdict.confidence, Confidence::kExact) << history.verdict.detail;

  Recording pending;
  pending.segment(kBase, 2 * kMiB).alloc(kBase, 512).request(kBase, 512);
  pending.end_segment(kBase, {{512, 512, trace::BlockState::kPendingFree}, {2 * kMiB - 512}});
  EXPECT_EQ(replay(pending).lifetimes[0].free_completed_event, kNever);
  EXPECT_EQ(replay(pending).verdict.confidence, Confidence::kExact);
}

TEST(History, BlocksFreedButNeverAllocatedWereThereBefore) {
  Recording recording;
  recording.alloc(kBase + 4 * kMiB, 3 * kMiB).free(kBase, 4 * kMiB);
  recording.end_segment(kBase, {{4 * kMiB}, {3 * kMiB, 3 * kMiB}, {13 * kMiB}});
  const History history = replay(recording);
  ASSERT_EQ(history.before_recording_count, 1u);
  EXPECT_EQ(history.lifetimes[0].alloc_event, kBeforeRecording);
  EXPECT_EQ(history.lifetimes[0].block_bytes, 4 * kMiB);
  EXPECT_EQ(history.initial_reserved_bytes, 20 * kMiB);
  EXPECT_EQ(history.verdict.before_recording_bytes, 4 * kMiB);
  EXPECT_EQ(history.verdict.confidence, Confidence::kExact) << history.verdict.detail;
}

TEST(History, BlocksLiveAtTheEndButNeverAllocatedWereThereBefore) {
  Recording recording;
  recording.alloc(kBase + 8 * kMiB, 2 * kMiB);
  recording.end_segment(kBase, {{4 * kMiB, 4 * kMiB - 7},
                                {4 * kMiB, 4 * kMiB - 9, trace::BlockState::kPendingFree},
                                {2 * kMiB, 2 * kMiB},
                                {10 * kMiB}});
  const History history = replay(recording);
  ASSERT_EQ(history.before_recording_count, 2u);
  EXPECT_EQ(history.lifetimes[0].requested_bytes, 4 * kMiB - 7);
  EXPECT_TRUE(history.allocated_at(history.lifetimes[0], 0));
  EXPECT_FALSE(history.allocated_at(history.lifetimes[1], 0));
  EXPECT_TRUE(history.active_at(history.lifetimes[1], 0));
  EXPECT_EQ(history.verdict.mismatches, 0u) << history.verdict.detail;
}

TEST(History, SegmentsGivenBackButNeverTakenWereThereBefore) {
  Recording recording;
  recording.segment_free(kBase, 20 * kMiB).segment(kBase + 64 * kMiB, 2 * kMiB);
  recording.end_segment(kBase + 64 * kMiB, {{2 * kMiB}});
  const History history = replay(recording);
  EXPECT_EQ(history.initial_reserved_bytes, 20 * kMiB);
  EXPECT_EQ(history.verdict.confidence, Confidence::kExact) << history.verdict.detail;
}

TEST(History, AnEndStateAloneIsAllBeforeRecording) {
  Recording recording;
  recording.end_segment(kBase, {{4 * kMiB, 4 * kMiB}, {16 * kMiB}});
  const History history = replay(recording);
  EXPECT_EQ(history.before_recording_count, 1u);
  EXPECT_EQ(history.initial_reserved_bytes, 20 * kMiB);
  EXPECT_EQ(history.verdict.confidence, Confidence::kUnchecked);
  EXPECT_EQ(history.verdict.mismatches, 0u);
}

// A ring of one entry: whatever it holds agrees with the end state.
TEST(History, OneEventIsTooLittleToCheck) {
  Recording recording;
  recording.alloc(kBase, 4 * kMiB).end_segment(kBase, {{4 * kMiB, 4 * kMiB}, {16 * kMiB}});
  const Verdict one = replay(recording).verdict;
  EXPECT_EQ(one.confidence, Confidence::kUnchecked);
  EXPECT_EQ(one.detail, "1 segment and 2 blocks at the end, and only one event that led there");
  recording.alloc(kBase + 4 * kMiB, 2 * kMiB).free(kBase + 4 * kMiB, 2 * kMiB);
  EXPECT_EQ(replay(recording).verdict.confidence, Confidence::kExact);
}

// Nothing comes before event 0: the event does not fit what was there.
TEST(History, TroubleIsNotSaidToContradictEarlierEvents) {
  Recording recording;
  recording.free(UINT64_MAX - 5, 100).alloc(kBase, 512);
  const Verdict verdict = replay(recording).verdict;
  EXPECT_THAT(verdict.detail,
              ::testing::HasSubstr("2 events do not fit the blocks and segments that were there; "
                                   "first: event 0 "));
  EXPECT_EQ(verdict.assumed_segment_bytes, 2 * kMiB);
  EXPECT_THAT(verdict.detail, ::testing::HasSubstr("2 MiB of segments assumed"));
  EXPECT_THAT(verdict.detail, ::testing::HasSubstr("reserved bytes are a lower bound"));
}

TEST(History, AReusedAddressWithoutAFreeEndsTheFormerTenant) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).alloc(kBase, 512).alloc(kBase, 512);
  recording.end_segment(kBase, {{512, 512}, {2 * kMiB - 512}});
  const History history = replay(recording);
  EXPECT_EQ(history.lifetimes[0].free_completed_event, 2u);
  ASSERT_EQ(history.implied_frees.size(), 1u);
  EXPECT_EQ(history.implied_frees[0].event, 2u);
  EXPECT_EQ(history.verdict.confidence, Confidence::kContradiction);
  EXPECT_NE(history.verdict.detail.find("event 2"), std::string::npos) << history.verdict.detail;
}

TEST(History, AnEndStateThatDiffersIsAContradictionWithItsAddress) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).alloc(kBase, 512);
  recording.end_segment(kBase, {{1024, 1024}, {2 * kMiB - 1024}});
  const History history = replay(recording);
  EXPECT_EQ(history.verdict.confidence, Confidence::kContradiction);
  EXPECT_NE(history.verdict.detail.find("0x10000000000"), std::string::npos)
      << history.verdict.detail;
}

TEST(History, SumsThatASegmentClaimsAreChecked) {
  Recording recording;
  recording.segment(kBase, 2 * kMiB).end_segment(kBase, {{2 * kMiB}});
  recording.device().segments[0].claimed_active_bytes = 512;
  EXPECT_EQ(replay(recording).verdict.confidence, Confidence::kContradiction);
}

TEST(History, SaysWhenTheRingOverflowedOrTheFileWasCut) {
  Recording overflowed;
  overflowed.free(kBase, 4 * kMiB).end_segment(kBase, {{20 * kMiB}});
  overflowed.device().ring_overflowed = true;
  EXPECT_EQ(replay(overflowed).verdict.confidence, Confidence::kOverflow);
  EXPECT_EQ(replay(overflowed).verdict.mismatches, 0u);

  Recording cut;
  cut.segment(kBase, 20 * kMiB).alloc(kBase, 4 * kMiB).end_segment(kBase, {{20 * kMiB}});
  cut.trace().origin.truncated_at_byte = 1000;
  const History history = replay(cut);
  EXPECT_EQ(history.verdict.confidence, Confidence::kTruncated);
  EXPECT_EQ(history.initial_reserved_bytes, 0u);
  EXPECT_EQ(history.lifetimes.size(), 1u);
}

TEST(History, WithoutAnEndStateUsedMemoryIsAssumedToBeReserved) {
  Recording recording;
  recording.alloc(kBase, 3 * kMiB).alloc(kBase + 3 * kMiB, 512);
  const History history = replay(recording);
  EXPECT_EQ(history.verdict.confidence, Confidence::kUnchecked);
  EXPECT_EQ(history.lifetimes.size(), 2u);
  EXPECT_EQ(history.initial_reserved_bytes, 4 * kMiB);
  EXPECT_NE(history.verdict.detail.find("assumed"), std::string::npos) << history.verdict.detail;
}

// In vram's pool sizes have classes, eight in each power of two, and blocks lie anywhere.
TEST(History, BlocksOfVramsPoolFollowItsRules) {
  Recording recording;
  recording.map(kBase, 8 * kMiB).of_vram();
  recording.alloc(kBase + 5 * kMiB, 600 * kKiB + 1).alloc(kBase, 2000);
  recording.segment(2 * kBase, 20 * kMiB).alloc(2 * kBase, 600 * kKiB + 1);
  recording.complete(kBase + 5 * kMiB, 600 * kKiB + 1);
  recording.alloc(kBase + 4 * kMiB, 4 * kMiB);
  const History history = replay(recording);
  ASSERT_EQ(history.lifetimes.size(), 4u);
  EXPECT_EQ(history.lifetimes[0].block_bytes, 640 * kKiB);
  EXPECT_EQ(history.lifetimes[1].block_bytes, 2048u);
  EXPECT_EQ(history.lifetimes[2].block_bytes, 600 * kKiB + 512) << "PyTorch serves beside it";
  EXPECT_EQ(history.lifetimes[3].block_bytes, 4 * kMiB) << "free neighbours are one";
  EXPECT_EQ(history.verdict.mismatches, 0u) << history.verdict.detail;
}

// A block shown elsewhere takes its pages along, and leaves them at home again.
TEST(History, PagesMoveWithAStitchedBlockOfVramsPool) {
  Recording recording;
  const uint64_t far = 4 * kBase;
  recording.map(kBase, 8 * kMiB).of_vram().alloc(kBase + 2 * kMiB, 3 * kMiB);
  recording.unmap(kBase + kMiB, kMiB).of_vram().unmap(kBase + 6 * kMiB, kMiB).of_vram();
  recording.map(far, 2 * kMiB).of_vram().alloc(far, 2 * kMiB).complete(far, 2 * kMiB);
  recording.unmap(far, 2 * kMiB).of_vram();
  recording.map(kBase + kMiB, kMiB).of_vram().map(kBase + 6 * kMiB, kMiB).of_vram();
  recording.complete(kBase + 2 * kMiB, 3 * kMiB).alloc(kBase, 8 * kMiB);
  const History history = replay(recording);
  EXPECT_EQ(history.verdict.mismatches, 0u) << history.verdict.detail;
  EXPECT_EQ(history.initial_reserved_bytes, 0u);
  TotalsWalker walker(recording.trace().events_of(recording.device()), history);
  while (!walker.at_end()) {
    walker.step();
    EXPECT_LE(walker.totals().reserved_bytes, 8 * kMiB);
  }
  EXPECT_EQ(walker.totals().reserved_bytes, 8 * kMiB);
  EXPECT_EQ(walker.totals().active_bytes, 8 * kMiB);
}

// vram's recorder writes no end state, and sees all from the beginning.
TEST(History, ARecordingOfVramsRecorderWithoutContradictionIsConsistent) {
  Recording recording;
  recording.map(kBase, 8 * kMiB).of_vram().alloc(kBase, 5);
  EXPECT_EQ(replay(recording).verdict.confidence, Confidence::kUnchecked);
  recording.trace().about.push_back({"recorder", "vram 0.1.0"});
  EXPECT_EQ(replay(recording).verdict.confidence, Confidence::kConsistent);
  recording.alloc(kBase, 5);
  EXPECT_EQ(replay(recording).verdict.confidence, Confidence::kUnchecked);
}

TEST(History, ARecordingThatLostEventsIsNotConsistent) {
  Recording recording;
  recording.map(kBase, 8 * kMiB).of_vram().alloc(kBase, 5);
  recording.trace().about.push_back({"recorder", "vram 0.1.0"});
  recording.trace().origin.notes.push_back({trace::kLostToDisk, 1234});
  const History history = replay(recording);
  EXPECT_EQ(history.verdict.confidence, Confidence::kUnchecked);
  EXPECT_EQ(history.verdict.detail, "no end state in the recording; 1,234 events were lost");
}

TEST(History, NonsenseIsCountedAndLeftOut) {
  Recording recording;
  recording.alloc(UINT64_MAX - 5, UINT64_MAX).segment(UINT64_MAX - 10, 100);
  recording.segment_free(5, 5).unmap(kBase, 0).free(7, UINT64_MAX).segment(kBase, 0);
  recording.device().has_end_state = true;
  const History history = replay(recording);
  EXPECT_EQ(history.lifetimes.size(), 0u);
  EXPECT_GT(history.verdict.mismatches, 0u);
}

// Pages around a block there would end beyond the last address.
TEST(History, BlocksAtTheEndOfTheAddressSpaceAreLeftOut) {
  Recording recording;
  recording.alloc(UINT64_MAX - 3 * kMiB / 2, 512);
  recording.end_segment(kBase, {{UINT64_MAX, UINT64_MAX}, {512, UINT64_MAX}});
  const History history = replay(recording);
  EXPECT_EQ(history.lifetimes.size(), 0u);
  EXPECT_EQ(history.verdict.confidence, Confidence::kContradiction);
}

// Random programs on a searching allocator: the replay must find every block's size, and the totals
// must agree at every event, wherever the recording began.
struct Program {
  uint64_t seed;
  bool expandable;
  uint64_t max_split_bytes;
  uint32_t unrecorded_operations;
};

class RandomProgram : public ::testing::TestWithParam<Program> {
 protected:
  struct Live {
    uint64_t address;
    bool is_pending;
  };

  uint64_t random_size() {
    const uint64_t classes[] = {4096, 300 * kKiB, kMiB + 1, 9 * kMiB, 60 * kMiB};
    return 1 + random_() % classes[random_() % 5];
  }
  void operate(CachingAllocator& allocator) {
    const uint64_t dice = random_() % 100;
    if (dice < 50 || live_.empty()) {
      live_.push_back(
          {allocator.allocate(random_size(), static_cast<uint16_t>(random_() % 3)), false});
      return;
    }
    if (dice >= 99) return allocator.empty_cache();
    const size_t i = random_() % live_.size();
    if (live_[i].is_pending) {
      allocator.complete(live_[i].address);
    } else {
      const bool awaited = random_() % 4 == 0;
      allocator.free(live_[i].address, awaited);
      live_[i].is_pending = awaited;
      if (awaited) return;
    }
    live_[i] = live_.back();
    live_.pop_back();
  }

  std::mt19937_64 random_{GetParam().seed};
  std::vector<Live> live_;
};

TEST_P(RandomProgram, IsReproducedAtEveryEvent) {
  replay::TorchSettings settings;
  settings.max_split_bytes = GetParam().max_split_bytes;
  const AllocatorRules rules(settings);
  CachingAllocator allocator(rules, GetParam().expandable);
  for (uint32_t i = 0; i < GetParam().unrecorded_operations; ++i) operate(allocator);
  trace::Trace trace;
  trace.has_time = true;
  trace.tables.streams.intern(1);
  trace.tables.streams.intern(2);
  trace.settings.push_back({"max_split_size", std::to_string(rules.max_split_bytes())});
  allocator.record_into(&trace);
  const Totals initial = allocator.totals();
  std::vector<std::pair<uint64_t, Totals>> expected;  // after event, known after each operation
  for (int i = 0; i < 4000; ++i) {
    operate(allocator);
    expected.emplace_back(trace.events.size(), allocator.totals());
  }
  trace::DeviceTrace& device = trace.devices.emplace_back();
  device.event_count = trace.events.size();
  allocator.write_end_state(device);

  const History history = replay_history(trace, device);
  EXPECT_EQ(history.verdict.mismatches, 0u) << history.verdict.detail;
  EXPECT_EQ(history.verdict.confidence, Confidence::kExact);
  TotalsWalker walker(trace.events_of(device), history);
  EXPECT_EQ(walker.totals().requested_bytes, initial.requested_bytes);
  EXPECT_EQ(walker.totals().reserved_bytes, initial.reserved_bytes);
  for (const auto& [events, totals] : expected) {
    while (walker.next_event() < events) walker.step();
    ASSERT_EQ(walker.totals().requested_bytes, totals.requested_bytes) << "event " << events;
    ASSERT_EQ(walker.totals().reserved_bytes, totals.reserved_bytes) << "event " << events;
    // Of a block known only by its free, the unsplit remainder may stay unknown.
    if (GetParam().unrecorded_operations > 0) continue;
    ASSERT_EQ(walker.totals().active_bytes, totals.active_bytes) << "event " << events;
    ASSERT_EQ(walker.totals().allocated_bytes, totals.allocated_bytes) << "event " << events;
  }
  EXPECT_EQ(walker.totals(), allocator.totals());
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, RandomProgram,
    ::testing::Values(Program{1, false, UINT64_MAX, 0}, Program{2, false, 32 * kMiB, 0},
                      Program{3, true, UINT64_MAX, 0}, Program{4, false, UINT64_MAX, 500},
                      Program{5, true, UINT64_MAX, 500}, Program{6, false, 32 * kMiB, 500},
                      Program{7, false, UINT64_MAX, 5000}));

// Any bytes as events: nothing crashes, and the totals stay ordered.
TEST(History, SurvivesRandomEvents) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    Recording recording;
    for (int i = 0; i < 300; ++i) {
      const auto kind = static_cast<trace::EventKind>(1 + random() % 9);
      const uint64_t unit = kind >= trace::EventKind::kSegmentAlloc ? 2 * kMiB : 512 * kKiB;
      recording.add(kind, kBase + random() % 64 * unit, (1 + random() % 12) * unit,
                    static_cast<uint16_t>(random() % 2));
    }
    if (round % 2 == 0) {
      recording.end_segment(kBase, {{4 * kMiB, 4 * kMiB}, {16 * kMiB}}, round % 4 == 0);
      recording.end_segment(kBase + 40 * kMiB, {{2 * kMiB}});
    }
    const History history = replay(recording);
    TotalsWalker walker(recording.trace().events_of(recording.device()), history);
    while (!walker.at_end()) {
      walker.step();
      const Totals& totals = walker.totals();
      ASSERT_LE(totals.requested_bytes, totals.active_bytes);
      ASSERT_LE(totals.allocated_bytes, totals.active_bytes);
      ASSERT_LE(totals.active_bytes, totals.reserved_bytes) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace vram::explain
