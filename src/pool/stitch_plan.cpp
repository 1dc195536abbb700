#include "pool/stitch_plan.hpp"

#include <algorithm>

namespace vram::pool {

Survey::Survey(const Arena& arena, const Stock& stock, std::span<const StreamIndex> streams)
    : arena_(arena), stock_(stock), ends_(stock.limit()), tails_(1), heads_(1) {
  for (const StreamIndex stream : streams) {
    arena.for_each_free(stream, [this](NodeId id) { visit(id); });
  }
  const auto by_size = [](const FreePiece& a, const FreePiece& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
  };
  std::ranges::sort(tails_, by_size);
  std::ranges::sort(heads_, by_size);
  std::ranges::sort(wholes_, [](const FreePiece& a, const FreePiece& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.address < b.address;
  });
  ends_bytes_ = most_at_ends();
}

void Survey::visit(NodeId id) {
  const Node& node = arena_[id];
  const Address end = node.address + node.size_bytes;
  for (Address at = node.address; at < end;) {
    const HandleId handle = stock_.at(at);
    const Address until = std::min(end, stock_[handle].end());
    keep({handle, id, at, until - at});
    at = until;
  }
}

void Survey::keep(const FreePiece& piece) {
  const Stock::Piece& handle = stock_[piece.handle];
  const bool is_head = piece.address == handle.home;
  const bool is_tail = piece.address + piece.bytes == handle.end();
  Ends& ends = ends_[piece.handle];
  if (is_head) ends.head = piece;
  if (is_tail) ends.tail = piece;
  if (is_head && is_tail) {
    wholes_.push_back(piece);
    whole_bytes_ += piece.bytes;
  } else if (is_head) {
    heads_.push_back(piece);
  } else if (is_tail) {
    tails_.push_back(piece);
  }
}

std::optional<StitchPlan> Survey::reuse(const Stitches& stitches, uint64_t bytes) const {
  for (StitchId id = 0; id < stitches.limit(); ++id) {
    const Stitches::Stitch& stitch = stitches[id];
    if (stitch.bytes < bytes || !stitch.is_idle()) continue;
    if (std::optional<StitchPlan> plan = window(stitch, bytes)) {
      plan->stitch = id;
      return plan;
    }
  }
  return {};
}

// The first run of free pieces in a stitch that is long enough.
std::optional<StitchPlan> Survey::window(const Stitches::Stitch& stitch, uint64_t bytes) const {
  uint64_t run = 0;
  size_t first = 0;
  for (size_t i = 0; i < stitch.handles.size(); ++i) {
    const Ends& ends = ends_[stitch.handles[i]];
    if (run == 0) first = i;
    if (first != i && run + ends.head.bytes >= bytes) return fill(stitch, first, bytes);
    if (is_whole(stitch.handles[i])) {
      run += ends.head.bytes;
    } else {
      run = ends.tail.bytes;
      first = i;
    }
    if (run >= bytes) return fill(stitch, first, bytes);
  }
  return {};
}

StitchPlan Survey::fill(const Stitches::Stitch& stitch, size_t first, uint64_t bytes) const {
  StitchPlan plan;
  for (size_t i = 0; i < first; ++i) plan.offset_bytes += stock_[stitch.handles[i]].bytes;
  const Stock::Piece& front = stock_[stitch.handles[first]];
  plan.offset_bytes += front.bytes - ends_[stitch.handles[first]].tail.bytes;
  for (size_t i = first; bytes > 0; ++i) {
    const Ends& ends = ends_[stitch.handles[i]];
    FreePiece piece = i == first ? ends.tail : ends.head;
    piece.bytes = std::min(piece.bytes, bytes);
    bytes -= piece.bytes;
    plan.pieces.push_back(piece);
  }
  return plan;
}

uint64_t Survey::missing_bytes(uint64_t bytes) const {
  const uint64_t there = whole_bytes_ + ends_bytes_;
  return bytes > there ? bytes - there : 0;
}

// No handle is to be in a stitch twice: free as a whole, it would count twice.
uint64_t Survey::most_at_ends() const {
  const FreePiece& tail = tails_.back();
  const FreePiece& head = heads_.back();
  if (tail.handle != head.handle || tail.handle == kNoHandle) return tail.bytes + head.bytes;
  return std::max(tail.bytes + heads_[heads_.size() - 2].bytes,
                  head.bytes + tails_[tails_.size() - 2].bytes);
}

// The pair that leaves the least over; one of the two may be none.
void Survey::add_ends(uint64_t bytes, FreePiece* tail, FreePiece* head) const {
  uint64_t best = UINT64_MAX;
  size_t h = heads_.size();
  for (const FreePiece& candidate : tails_) {
    while (h > 0 && candidate.bytes + heads_[h - 1].bytes >= bytes) --h;
    size_t with = h;
    if (with < heads_.size() && candidate.bytes > 0 && heads_[with].handle == candidate.handle)
      ++with;
    if (with == heads_.size()) continue;
    const uint64_t sum = candidate.bytes + heads_[with].bytes;
    if (sum >= best) continue;
    best = sum;
    *tail = candidate;
    *head = heads_[with];
  }
}

std::optional<StitchPlan> Survey::plan(uint64_t bytes) const {
  if (missing_bytes(bytes) > 0) return {};
  size_t count = 0;
  uint64_t rest = bytes;
  for (; rest > ends_bytes_; ++count) rest -= std::min(rest, wholes_[count].bytes);
  FreePiece tail;
  FreePiece head;
  if (rest > 0) add_ends(rest, &tail, &head);
  StitchPlan plan;
  const auto use = [&](FreePiece piece) {
    piece.bytes = std::min(piece.bytes, bytes);
    if (piece.bytes == 0) return;
    bytes -= piece.bytes;
    plan.pieces.push_back(piece);
  };
  plan.offset_bytes = tail.bytes == 0 ? 0 : stock_[tail.handle].bytes - tail.bytes;
  use(tail);
  for (size_t i = 0; i < count; ++i) use(wholes_[i]);
  use(head);
  return plan;
}

}  // namespace vram::pool
