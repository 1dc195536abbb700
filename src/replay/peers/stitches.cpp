#include "replay/peers/stitches.hpp"

#include <algorithm>
#include <utility>

namespace vram::replay {

template <typename Visit>
void Stitches::for_each_over(const Piece& range, Visit visit) {
  if (range.segment >= links_.size()) return;
  const uint64_t end = range.address + range.bytes;
  for (const Link& link : links_[range.segment]) {
    const uint64_t low = std::max(link.begin, range.address);
    const uint64_t high = std::min(link.end, end);
    if (low < high) visit(link.stitch, high - low);
  }
}

Stitches::Id Stitches::add(Stitch stitch) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<Id>(stitches_.size()));
    stitches_.emplace_back();
  }
  const Id id = unused_.back();
  unused_.pop_back();
  for (const Piece& piece : stitch.pieces) {
    if (piece.segment >= links_.size()) links_.resize(piece.segment + 1);
    links_[piece.segment].push_back({id, piece.address, piece.address + piece.bytes});
  }
  if (stitch.lane >= free_.size()) free_.resize(stitch.lane + 1);
  if (stitch.busy_bytes == 0) free_of(stitch).insert({stitch.bytes, stitch.address, id});
  total_bytes_ += stitch.bytes;
  stitches_[id] = std::move(stitch);
  return id;
}

void Stitches::drop(Id id) {
  Stitch& stitch = stitches_[id];
  for (const Piece& piece : stitch.pieces) {
    std::erase_if(links_[piece.segment], [&](const Link& link) { return link.stitch == id; });
  }
  if (stitch.busy_bytes == 0) free_of(stitch).erase(stitch.bytes, stitch.address);
  total_bytes_ -= stitch.bytes;
  stitch = {};
  unused_.push_back(id);
}

void Stitches::use(const Piece& range) {
  for_each_over(range, [this](Id id, uint64_t bytes) {
    Stitch& stitch = stitches_[id];
    if (stitch.busy_bytes == 0) free_of(stitch).erase(stitch.bytes, stitch.address);
    stitch.busy_bytes += bytes;
  });
}

void Stitches::leave(const Piece& range) {
  for_each_over(range, [this](Id id, uint64_t bytes) {
    Stitch& stitch = stitches_[id];
    stitch.busy_bytes -= bytes;
    if (stitch.busy_bytes == 0) free_of(stitch).insert({stitch.bytes, stitch.address, id});
  });
}

std::optional<Stitches::Id> Stitches::best_fit(uint32_t lane, uint64_t min_bytes,
                                               uint64_t max_bytes) const {
  if (lane >= free_.size()) return {};
  const FreeSet& free = free_[lane];
  const FreeSet::Cursor at = free.at_least(min_bytes);
  if (free.is_end(at) || free[at].size_bytes > max_bytes) return {};
  return free[at].node;
}

std::vector<Stitches::Id> Stitches::over(uint32_t segment) const {
  std::vector<Id> list;
  if (segment >= links_.size()) return list;
  for (const Link& link : links_[segment]) list.push_back(link.stitch);
  std::ranges::sort(list);
  list.erase(std::ranges::unique(list).begin(), list.end());
  return list;
}

std::vector<Stitches::Id> Stitches::idle() const {
  std::vector<Id> list;
  for (Id id = 0; id < stitches_.size(); ++id) {
    if (stitches_[id].bytes != 0 && stitches_[id].held.empty()) list.push_back(id);
  }
  return list;
}

}  // namespace vram::replay
