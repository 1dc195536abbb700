#include "pool/ladder.hpp"

#include "pool/stitch_plan.hpp"

#include <numeric>
#include <optional>

namespace vram::pool {
namespace {

// Exchanging a handle is an unmap and a map, so from there on a new stitch is cheaper.
constexpr uint32_t kMaxPatchesPercent = 60;

}  // namespace

Allocation Ladder::climb(const Wanted& wanted) {
  ++stats_.slow_requests;
  returns_.settle();
  Allocation found = placement_.search(wanted);
  if (found.address == 0) found = collect(wanted);
  if (found.address == 0) found = reuse_stitch(wanted);
  if (found.address == 0) found = grow_cheaply(wanted);
  if (found.address == 0) found = stitch(wanted, Effort::kLittleMemory);
  if (found.address == 0) found = placement_.search_other_lanes(wanted);
  if (found.address == 0) found = stitch(wanted, Effort::kAllMemory);
  if (found.address == 0) found = wait_for_stream(wanted);
  if (found.address == 0) found = wait_for_all_streams(wanted);
  return found;
}

Allocation Ladder::collect(const Wanted& wanted) {
  if (shortage_.answer == nullptr || !shortage_.answer(shortage_.caller)) return {};
  returns_.settle();
  return placement_.search(wanted);
}

Allocation Ladder::reuse_stitch(const Wanted& wanted) {
  if (wanted.lane == Lane::kSmall || stitches_.mapped_bytes() == 0) return {};
  const Survey survey(arena_, stock_, usable_streams(wanted, false));
  const std::optional<StitchPlan> plan = plan_reuse(survey, stitches_, wanted.size_bytes, 0);
  if (!plan) return {};
  ++stats_.stitch_reuses;
  return use_plan(*plan, wanted);
}

Allocation Ladder::grow_cheaply(const Wanted& wanted) {
  const uint64_t missing = wanted.size_bytes - supply_.tail_bytes(wanted);
  if (stock_.bytes() + missing > supply_.allowance_bytes(wanted)) return {};
  return supply_.grow(missing, wanted) ? placement_.search(wanted) : Allocation{};
}

// New memory only for what the free pieces lack.
Allocation Ladder::stitch(const Wanted& wanted, Effort effort) {
  const bool is_small = wanted.lane == Lane::kSmall;
  const std::vector<StreamIndex> streams = usable_streams(wanted, effort == Effort::kWait);
  const bool is_whole = is_small || options_.backing == Backing::kSegments;
  const uint64_t missing = is_whole
                               ? wanted.size_bytes
                               : Survey(arena_, stock_, streams).missing_bytes(wanted.size_bytes);
  if (missing > 0) {
    const uint64_t most =
        supply_.allowance_bytes(wanted) / 1000 * (1000 + options_.patience_permille);
    if (effort == Effort::kLittleMemory && stock_.bytes() + missing > most) return {};
    if (!supply_.grow(missing, wanted)) return {};
    if (const Allocation found = placement_.search(wanted); found.address != 0) return found;
  }
  if (is_whole) return {};
  const Survey survey(arena_, stock_, streams);
  if (auto plan = plan_reuse(survey, stitches_, wanted.size_bytes, kMaxPatchesPercent)) {
    if (stitches_.patch(plan->stitch, plan->patches) == Status::kOk) return use_plan(*plan, wanted);
  }
  auto plan = plan_stitch(survey, wanted.size_bytes);
  if (plan && map(&*plan)) return use_plan(*plan, wanted);
  const bool has_grown = effort == Effort::kAllMemory && supply_.grow(wanted.size_bytes, wanted);
  return has_grown ? placement_.search(wanted) : Allocation{};
}

bool Ladder::map(StitchPlan* plan) {
  std::vector<HandleId> handles;
  for (const FreePiece& piece : plan->pieces) handles.push_back(piece.handle);
  stitches_.drop_until(stock_.bytes() / 100 * options_.stitched_percent);
  if (stitches_.add(handles, &plan->stitch) != Status::kOk) return false;
  ++stats_.stitches;
  return true;
}

Allocation Ladder::use_plan(const StitchPlan& plan, const Wanted& wanted) {
  for (const FreePiece& piece : plan.pieces) {
    if (!stream_waits_for(wanted, piece.node)) return {};
  }
  return placement_.show(plan, wanted);
}

std::vector<StreamIndex> Ladder::usable_streams(const Wanted& wanted, bool all) const {
  if (!all) return {wanted.stream, kNoStream};
  std::vector<StreamIndex> streams(arena_.stream_count());
  std::iota(streams.begin(), streams.end(), kNoStream);
  return streams;
}

bool Ladder::stream_waits_for(const Wanted& wanted, NodeId id) {
  const Node& node = arena_[id];
  if (node.stream == wanted.stream || node.stream == kNoStream) return true;
  const StreamHandle stream = arena_.stream(node.stream);
  if (device_.stream_wait(arena_.stream(wanted.stream), stream, node.stamp) == Status::kOk) {
    ++stats_.stream_waits;
    return true;
  }
  return device_.wait(stream, node.stamp) == Status::kOk;
}

Allocation Ladder::wait_for_stream(const Wanted& wanted) {
  for (const Lane lane : {wanted.lane, Lane::kLarge, Lane::kSmall}) {
    const NodeId node = arena_.best_fit_of_all(lane, wanted.size_bytes);
    if (node == kNoNode || !stream_waits_for(wanted, node)) continue;
    return placement_.serve(node, wanted);
  }
  return stitch(wanted, Effort::kWait);
}

Allocation Ladder::wait_for_all_streams(const Wanted& wanted) {
  ++stats_.num_alloc_retries;
  // What streams have finished with is free for all; the others can't be waited for.
  (void)returns_.wait();
  const Allocation found = placement_.search_other_lanes(wanted);
  if (found.address != 0) return found;
  // Segments that are too small make room for one that is not.
  if (options_.backing == Backing::kSegments && supply_.trim(UINT64_MAX) == 0) return {};
  return stitch(wanted, Effort::kAllMemory);
}

}  // namespace vram::pool
