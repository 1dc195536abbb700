#include "pool/placement.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

// Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
constexpr uint64_t kMultiplier = 0x9e37'79b9'7f4a'7c15;

constexpr uint64_t power(uint64_t exponent) {
  return exponent == 0 ? 1 : kMultiplier * power(exponent - 1);
}

}  // namespace

// A rolling hash (Karp and Rabin, 1987): the sum of key i requests ago times kMultiplier^(i + 1).
void Recall::roll(uint64_t key) {
  const uint64_t gone = history_[(count_ - kContext) % kHistory].key;
  context_ = (context_ + key) * kMultiplier - gone * power(kContext + 1);
}

// Where this context came last, which is looked up for some contexts only: the same in every step.
void Recall::find_again() {
  run_ = 0;
  match_ = count_;
  if (is_marker()) match_ -= static_cast<uint32_t>(count_ + 1 - last_seen());
}

Recall::Answer Recall::expect(uint64_t size_bytes, StreamIndex stream) {
  const uint64_t key = size_bytes + stream;  // sizes are multiples of 512
  history_[count_ % kHistory].key = key;
  roll(key);
  ++match_;
  ++run_;
  if (!is_match(match_, key)) find_again();
  if (is_marker()) last_seen() = static_cast<uint32_t>(count_ + 1);
  if (run_ < kSure || !is_match(match_, key)) return {};
  return history_[match_ % kHistory].answer;
}

Allocation Placement::place_again(Recall::Answer answer, const Wanted& wanted) {
  if (answer.address == 0) return {};
  if (answer.stitch != kNoStitch) return show_again(answer.stitch, answer.address, wanted);
  const NodeId node = arena_.find_free(answer.address, wanted.size_bytes, wanted.stream);
  if (node == kNoNode) return {};
  return blocks_.add(arena_.carve(node, answer.address, wanted.size_bytes).part, answer.address,
                     wanted, kNoStitch);
}

// Through the same stitch, if all that it showed then is free.
Allocation Placement::show_again(StitchId id, Address address, const Wanted& wanted) {
  const Stitches::Stitch& stitch = stitches_[id];
  if (!stitch.is_idle() || stitch.address + stitch.offset_bytes != address) return {};
  uint64_t bytes = 0;
  for (const auto& [home, part_bytes] : stitch.shown) {
    if (arena_.find_free(home, part_bytes, wanted.stream) == kNoNode) return {};
    bytes += part_bytes;
  }
  if (bytes != wanted.size_bytes) return {};
  std::vector<NodeId> parts;
  for (const auto& [home, part_bytes] : stitch.shown) {
    const NodeId node = arena_.find_free(home, part_bytes, wanted.stream);
    parts.push_back(arena_.carve(node, home, part_bytes).part);
  }
  const NodeId first = parts.front();
  ++stats_.stitch_reuses;
  stitches_.use(id, std::move(parts), stitch.offset_bytes, stitch.shown);
  return blocks_.add(first, address, wanted, id);
}

Allocation Placement::search(const Wanted& wanted) {
  const NodeId node = arena_.best_fit(wanted.lane, wanted.stream, wanted.size_bytes);
  return node == kNoNode ? Allocation{} : serve(node, wanted);
}

Allocation Placement::search_other_lanes(const Wanted& wanted) {
  for (const Lane lane : {Lane::kLarge, Lane::kSmall}) {
    const NodeId node = arena_.best_fit(lane, wanted.stream, wanted.size_bytes);
    if (node != kNoNode) return serve(node, wanted);
  }
  return {};
}

Allocation Placement::serve(NodeId free_node, const Wanted& wanted) {
  const Address address = arena_[free_node].address;
  const NodeId node = arena_.carve(free_node, address, wanted.size_bytes).part;
  return blocks_.add(node, address, wanted, kNoStitch);
}

// Pieces of one node are taken in order of address: the rest is another node each time.
Allocation Placement::show(const StitchPlan& plan, const Wanted& wanted) {
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

}  // namespace vram::pool
