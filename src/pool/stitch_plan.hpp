// StitchPlan: which free pieces are to be seen as one range, and through which stitch: one that is
// mapped already, one that needs some handles exchanged, or a new one. Pure; for the slow path.
#pragma once

#include "pool/arena.hpp"
#include "pool/stitches.hpp"
#include "pool/stock.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vram::pool {

// Survey: what is free at the ends of handles: tails (free up to a handle's end), heads (free from
// its beginning) and whole handles. Free memory that touches neither end can't be joined to other
// memory and is left out. Pure: reads arena and stock. Linear in the free nodes and the handles:
// for the slow path, where the alternative is a call to the driver. Valid until one of them
// changes.

// A part of a free node, in one handle.
struct FreePiece {
  HandleId handle = kNoHandle;
  NodeId node = kNoNode;
  Address address = 0;
  uint64_t bytes = 0;
};

class Survey {
 public:
  struct Ends {
    FreePiece head;
    FreePiece tail;  // of a whole handle, head and tail are both all of it
  };

  // What these streams may use.
  Survey(const Arena& arena, const Stock& stock, std::span<const StreamIndex> streams);

  [[nodiscard]] const Ends& ends(HandleId id) const { return ends_[id]; }
  [[nodiscard]] bool is_whole(HandleId id) const {
    return ends_[id].head.bytes == stock_[id].bytes;
  }
  // The largest first.
  [[nodiscard]] const std::vector<FreePiece>& wholes() const { return wholes_; }
  // The smallest first, and first of all one of no bytes.
  [[nodiscard]] const std::vector<FreePiece>& tails() const { return tails_; }
  [[nodiscard]] const std::vector<FreePiece>& heads() const { return heads_; }
  // The most that a tail and a head of two handles have.
  [[nodiscard]] uint64_t ends_bytes() const { return ends_bytes_; }
  // How much must be added, in whole handles, for a range of so many bytes.
  [[nodiscard]] uint64_t missing_bytes(uint64_t bytes) const;
  [[nodiscard]] const Stock& stock() const { return stock_; }

 private:
  void visit(NodeId id);
  void keep(const FreePiece& piece);
  [[nodiscard]] uint64_t max_at_ends() const;

  const Arena& arena_;
  const Stock& stock_;
  std::vector<Ends> ends_;  // by handle
  std::vector<FreePiece> wholes_;
  std::vector<FreePiece> tails_;
  std::vector<FreePiece> heads_;
  uint64_t whole_bytes_ = 0;
  uint64_t ends_bytes_ = 0;
};

struct StitchPlan {
  std::vector<FreePiece> pieces;  // in the order in which they are to be seen
  uint64_t offset_bytes = 0;      // of the first piece in the stitch
  StitchId stitch = kNoStitch;    // that shows them, once patched; kNoStitch: a new one
  std::vector<Stitches::Patch> patches;
};

// A new stitch of as few handles as possible.
[[nodiscard]] std::optional<StitchPlan> plan_stitch(const Survey& survey, uint64_t bytes);

// The idle stitch that needs the fewest handles exchanged; none where more than `most` in a hundred
// of its handles would have to be. With 0 the driver has nothing to do.
[[nodiscard]] std::optional<StitchPlan> plan_reuse(const Survey& survey, const Stitches& stitches,
                                                   uint64_t bytes, uint32_t max_percent);

}  // namespace vram::pool
