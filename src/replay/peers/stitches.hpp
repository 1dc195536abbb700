// Stitches: blocks without memory of their own: address space over pieces of other (primitive)
// blocks, for gmlake. Knows the memory of each, and which of them are wholly free: a byte that is
// in use, through whichever address, makes every stitch over it busy. Knows no driver. Not
// thread-safe; allocates when a stitch is added. Use of a range costs a visit of the stitches over
// its segment.
#pragma once

#include "replay/peers/block_cache.hpp"
#include "replay/peers/free_set.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::replay {

class Stitches {
 public:
  using Id = uint32_t;
  // A range of a segment of primitive blocks, by its own address there.
  struct Piece {
    uint32_t segment = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  struct Stitch {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t busy_bytes = 0;  // in use, by itself or others
    uint32_t lane = 0;
    std::vector<Piece> pieces;  // in the order of its addresses
    std::vector<NodeId> held;   // the primitive blocks it is in use with; empty: not in use
  };

  [[nodiscard]] Id add(Stitch stitch);
  // Not in use.
  void drop(Id id);
  [[nodiscard]] Stitch& operator[](Id id) { return stitches_[id]; }
  // Their address space.
  [[nodiscard]] uint64_t total_bytes() const { return total_bytes_; }

  // A range came into use, or is free again.
  void use(const Piece& range);
  void leave(const Piece& range);

  // The smallest wholly free one of the lane within these sizes, of those the lowest.
  [[nodiscard]] std::optional<Id> best_fit(uint32_t lane, uint64_t min_bytes,
                                           uint64_t max_bytes) const;
  // Those over any part of the segment, each once.
  [[nodiscard]] std::vector<Id> over(uint32_t segment) const;
  // All that are not in use.
  [[nodiscard]] std::vector<Id> idle() const;

 private:
  struct Link {  // from a segment to what lies over a range of it
    Id stitch = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // visit(stitch, bytes) for each piece of one that shares bytes with the range.
  template <typename Visit>
  void for_each_over(const Piece& range, Visit visit);
  [[nodiscard]] FreeSet& free_of(const Stitch& stitch) { return free_[stitch.lane]; }

  std::vector<Stitch> stitches_;
  std::vector<Id> unused_;
  std::vector<FreeSet> free_;             // by lane: the wholly free ones
  std::vector<std::vector<Link>> links_;  // by segment
  uint64_t total_bytes_ = 0;
};

}  // namespace vram::replay
