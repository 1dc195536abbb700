// StitchPlan: which free pieces are to be seen as one range. A survey of what is free at the ends
// of handles, and two ways to use it: a stitch that is mapped already, or a new one. Pure: reads
// arena, stock and stitches, changes none. Linear in the free nodes, handles and stitches: for the
// slow path, where the alternative is a call to the driver.
#pragma once

#include "pool/arena.hpp"
#include "pool/stitches.hpp"
#include "pool/stock.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vram::pool {

// A part of a free node, in one handle.
struct FreePiece {
  HandleId handle = kNoHandle;
  NodeId node = kNoNode;
  Address address = 0;
  uint64_t bytes = 0;
};

struct StitchPlan {
  std::vector<FreePiece> pieces;  // in the order in which they are to be seen
  StitchId stitch = kNoStitch;    // that shows them already
  uint64_t offset_bytes = 0;      // of the first piece in the stitch
};

class Survey {
 public:
  // What these streams may use.
  Survey(const Arena& arena, const Stock& stock, std::span<const StreamIndex> streams);

  // An idle stitch in which so many bytes in a row are free.
  [[nodiscard]] std::optional<StitchPlan> reuse(const Stitches& stitches, uint64_t bytes) const;
  // A new stitch of as few handles as possible.
  [[nodiscard]] std::optional<StitchPlan> plan(uint64_t bytes) const;
  // How much more there must be, in whole handles, for a plan; 0 where there is one.
  [[nodiscard]] uint64_t missing_bytes(uint64_t bytes) const;

 private:
  struct Ends {
    FreePiece head;  // free from the handle's beginning; the whole handle is head and tail
    FreePiece tail;
  };
  void visit(NodeId id);
  void keep(const FreePiece& piece);
  [[nodiscard]] bool is_whole(HandleId id) const {
    return ends_[id].head.bytes == stock_[id].bytes;
  }
  [[nodiscard]] std::optional<StitchPlan> window(const Stitches::Stitch& stitch,
                                                 uint64_t bytes) const;
  [[nodiscard]] StitchPlan fill(const Stitches::Stitch& stitch, size_t first, uint64_t bytes) const;
  [[nodiscard]] uint64_t most_at_ends() const;
  void add_ends(uint64_t bytes, FreePiece* tail, FreePiece* head) const;

  const Arena& arena_;
  const Stock& stock_;
  std::vector<Ends> ends_;         // by handle
  std::vector<FreePiece> wholes_;  // the largest first
  std::vector<FreePiece> tails_;   // the smallest first, none first of all
  std::vector<FreePiece> heads_;
  uint64_t whole_bytes_ = 0;
  uint64_t ends_bytes_ = 0;  // of the largest tail and head
};

}  // namespace vram::pool
