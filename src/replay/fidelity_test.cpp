#include "replay/fidelity.hpp"

#include "base/bytes.hpp"
#include "replay/testing/builders.hpp"

#include <gtest/gtest.h>

namespace vram::replay {
namespace {

using trace::BlockState;
using trace::EventKind;

constexpr uint64_t address_at_mib(uint64_t mib) { return (uint64_t{1} << 40) + mib * kMiB; }

// 60 MiB are reserved at first, with room for the only request.
TraceMaker from_the_middle() {
  TraceMaker t;
  t.add(EventKind::kAlloc, address_at_mib(15), 20 * kMiB);
  t.end_segment(address_at_mib(0), 60 * kMiB);
  t.end_block(address_at_mib(0), 15 * kMiB, BlockState::kAllocated);
  t.end_block(address_at_mib(15), 20 * kMiB, BlockState::kAllocated);
  t.end_block(address_at_mib(35), 25 * kMiB, BlockState::kInactive);
  return t;
}

TEST(Fidelity, APeakThatLiesBeforeTheRecordingIsTold) {
  const Program flat = from_the_middle().make();
  EXPECT_TRUE(prove(flat, {"torch", {}}, {}).peak_is_before);
  EXPECT_EQ(prove(flat, {"torch", {}}, {}).start_reserved_bytes, 60 * kMiB);
  TraceMaker t = from_the_middle();
  t.take(address_at_mib(100), 30 * kMiB);
  t.end_segment(address_at_mib(100), 30 * kMiB);
  t.end_block(address_at_mib(100), 30 * kMiB, BlockState::kAllocated);
  const Fidelity grown = prove(t.make(), {"torch", {}}, {});
  EXPECT_FALSE(grown.peak_is_before);
  EXPECT_TRUE(grown.is_exact());
}

// A free of what was never allocated, and no end state, as in the export of a ring.
TEST(Fidelity, WithoutTheSegmentsThatWereThereThePeakIsNotKnown) {
  TraceMaker t;
  t.free(address_at_mib(0), 20 * kMiB);
  t.take(address_at_mib(100), 30 * kMiB);
  const Fidelity fidelity = prove(t.make(), {"torch", {}}, {});
  EXPECT_TRUE(fidelity.start_is_unknown);
  EXPECT_TRUE(fidelity.peak_is_before);
  EXPECT_FALSE(prove(from_the_middle().make(), {"torch", {}}, {}).start_is_unknown);
}

// Two requests that need a segment each; the recording has the first one's alone.
TEST(Fidelity, TellsWhatTheProgramReservedAndWhatItsReplayDoes) {
  TraceMaker t;
  t.take(address_at_mib(0), 30 * kMiB);
  t.add(EventKind::kAlloc, address_at_mib(100), 50 * kMiB);
  const Fidelity fidelity = prove(t.make(), {"torch", {}}, {});
  EXPECT_EQ(fidelity.recorded_peak_bytes, 30 * kMiB);
  EXPECT_EQ(fidelity.made_peak_bytes, 80 * kMiB);
}

TEST(Fidelity, FiguresAreWhatTheReplayOfTheRecordedSettingsProved) {
  ReplayResult result;
  result.matched_calls = result.made_calls = 5;
  Fidelity fidelity{.recorded_calls = 5, .made_calls = 5, .matched_calls = 5};
  EXPECT_EQ(basis_of(result, true, fidelity), Basis::kExact);
  EXPECT_EQ(basis_of(result, false, fidelity), Basis::kEmulated);
  result.start = Start::kModel;
  EXPECT_EQ(basis_of(result, false, fidelity), Basis::kEstimate);
  fidelity.made_calls = 6;  // one more than recorded
  EXPECT_EQ(basis_of(result, true, fidelity), Basis::kEstimate);
  fidelity = {};  // none to compare
  EXPECT_EQ(basis_of(result, true, fidelity), Basis::kEstimate);
  result.model = true;
  EXPECT_EQ(basis_of(result, true, fidelity), Basis::kModel);
}

}  // namespace
}  // namespace vram::replay
