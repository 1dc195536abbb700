// The ladder: what the pool does when no free block fits, the cheapest first.
#include "pool/pool.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace vram::pool {
namespace {

// Exchanging a handle is an unmap and a map, so from there on a new stitch is cheaper.
constexpr uint32_t kMostPatchesPercent = 60;

}  // namespace

Allocation Pool::climb(const Wanted& wanted) {
  ++stats_.slow_requests;
  returns_.settle();
  Allocation found = search(wanted);
  if (found.address == 0) found = collect(wanted);
  if (found.address == 0) found = reuse_stitch(wanted);
  if (found.address == 0) found = grow_cheaply(wanted);
  if (found.address == 0) found = stitch(wanted, Effort::kLittleMemory);
  if (found.address == 0) found = search_other_lanes(wanted);
  if (found.address == 0) found = stitch(wanted, Effort::kAllMemory);
  if (found.address == 0) found = wait_for_stream(wanted);
  if (found.address == 0) found = wait_for_all_streams(wanted);
  return found.address != 0 ? found : fail(wanted);
}

Allocation Pool::search(const Wanted& wanted) {
  const NodeId node = arena_.best_fit(wanted.lane, wanted.stream, wanted.size_bytes);
  return node == kNoNode ? Allocation{} : serve(node, wanted);
}

Allocation Pool::collect(const Wanted& wanted) {
  if (shortage_.answer == nullptr || !shortage_.answer(shortage_.caller)) return {};
  returns_.settle();
  return search(wanted);
}

Allocation Pool::reuse_stitch(const Wanted& wanted) {
  if (wanted.lane == Lane::kSmall || stitches_.mapped_bytes() == 0) return {};
  const Survey survey(arena_, stock_, usable_streams(wanted, false));
  const std::optional<StitchPlan> plan = plan_reuse(survey, stitches_, wanted.size_bytes, 0);
  if (!plan) return {};
  ++stats_.stitch_reuses;
  return use_plan(*plan, wanted);
}

Allocation Pool::grow_cheaply(const Wanted& wanted) {
  const uint64_t missing = wanted.size_bytes - supply_.tail_bytes(wanted);
  if (stock_.bytes() + missing > supply_.allowance_bytes(wanted)) return {};
  return supply_.grow(missing, wanted) ? search(wanted) : Allocation{};
}

// New memory only for what the free pieces lack.
Allocation Pool::stitch(const Wanted& wanted, Effort effort) {
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
    if (const Allocation found = search(wanted); found.address != 0) return found;
  }
  if (is_whole) return {};
  const Survey survey(arena_, stock_, streams);
  if (auto plan = plan_reuse(survey, stitches_, wanted.size_bytes, kMostPatchesPercent)) {
    if (stitches_.patch(plan->stitch, plan->patches) == Status::kOk) return use_plan(*plan, wanted);
  }
  auto plan = plan_stitch(survey, wanted.size_bytes);
  if (plan && map(&*plan)) return use_plan(*plan, wanted);
  const bool has_grown = effort == Effort::kAllMemory && supply_.grow(wanted.size_bytes, wanted);
  return has_grown ? search(wanted) : Allocation{};
}

bool Pool::map(StitchPlan* plan) {
  std::vector<HandleId> handles;
  for (const FreePiece& piece : plan->pieces) handles.push_back(piece.handle);
  stitches_.drop_until(stock_.bytes() / 100 * options_.stitched_percent);
  if (stitches_.add(handles, &plan->stitch) != Status::kOk) return false;
  ++stats_.stitches;
  return true;
}

// Pieces of one node are taken in order of address: the rest is another node each time.
Allocation Pool::use_plan(const StitchPlan& plan, const Wanted& wanted) {
  for (const FreePiece& piece : plan.pieces) {
    if (!stream_waits_for(wanted, piece.node)) return {};
  }
  std::vector<size_t> order(plan.pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return plan.pieces[i].address; });
  std::vector<NodeId> parts(order.size(), kNoNode);
  std::vector<std::pair<Address, uint64_t>> shown(order.size());
  std::pair<NodeId, NodeId> last{kNoNode, kNoNode};  // a node, and what is left of it
  for (const size_t i : order) {
    const FreePiece& piece = plan.pieces[i];
    const NodeId node = piece.node == last.first ? last.second : piece.node;
    const Arena::Carved carved = arena_.carve(node, piece.address, piece.bytes);
    parts[i] = carved.part;
    shown[i] = {piece.address, piece.bytes};
    last = {piece.node, carved.rest};
  }
  const Address address = stitches_[plan.stitch].address + plan.offset_bytes;
  const NodeId first = parts.front();
  stitches_.use(plan.stitch, std::move(parts), plan.offset_bytes, std::move(shown));
  return blocks_.add(first, address, wanted, plan.stitch);
}

std::vector<StreamIndex> Pool::usable_streams(const Wanted& wanted, bool all) const {
  if (!all) return {wanted.stream, kNoStream};
  std::vector<StreamIndex> streams(arena_.stream_count());
  std::iota(streams.begin(), streams.end(), kNoStream);
  return streams;
}

Allocation Pool::search_other_lanes(const Wanted& wanted) {
  for (const Lane lane : {Lane::kLarge, Lane::kSmall}) {
    const NodeId node = arena_.best_fit(lane, wanted.stream, wanted.size_bytes);
    if (node != kNoNode) return serve(node, wanted);
  }
  return {};
}

bool Pool::stream_waits_for(const Wanted& wanted, NodeId id) {
  const Node& node = arena_[id];
  if (node.stream == wanted.stream || node.stream == kNoStream) return true;
  const StreamHandle stream = arena_.stream(node.stream);
  if (device_.stream_wait(arena_.stream(wanted.stream), stream, node.stamp) == Status::kOk) {
    ++stats_.stream_waits;
    return true;
  }
  return device_.wait(stream, node.stamp) == Status::kOk;
}

Allocation Pool::wait_for_stream(const Wanted& wanted) {
  for (const Lane lane : {wanted.lane, Lane::kLarge, Lane::kSmall}) {
    const NodeId node = arena_.best_fit_of_all(lane, wanted.size_bytes);
    if (node == kNoNode || !stream_waits_for(wanted, node)) continue;
    return serve(node, wanted);
  }
  return stitch(wanted, Effort::kWait);
}

Allocation Pool::wait_for_all_streams(const Wanted& wanted) {
  ++stats_.num_alloc_retries;
  (void)returns_.wait();  // what streams have finished is nobody's now; others can't be waited for
  const Allocation found = search_other_lanes(wanted);
  if (found.address != 0) return found;
  // Segments that are too small make room for one that is not.
  if (options_.backing == Backing::kSegments && supply_.trim(UINT64_MAX) == 0) return {};
  return stitch(wanted, Effort::kAllMemory);
}

Allocation Pool::fail(const Wanted& wanted) {
  oom_ = {.requested_bytes = wanted.requested_bytes,
          .largest_free_bytes = largest_free_bytes(),
          .free_bytes = arena_.free_bytes(),
          .held_bytes = stats_.active_bytes.current - stats_.allocated_bytes.current,
          .reserved_bytes = stock_.bytes(),
          .limit_bytes = supply_.limit_bytes(),
          .backing = options_.backing,
          .holders = blocks_.find_holders()};
  gpu::MemoryInfo info;
  if (device_.memory().memory_info(device_.ordinal(), &info) == Status::kOk) {
    oom_.device_free_bytes = info.free_bytes;
    oom_.device_total_bytes = info.total_bytes;
  }
  return {};
}

}  // namespace vram::pool
