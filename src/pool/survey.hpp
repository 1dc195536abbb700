// Survey: what is free at the ends of handles: tails (free up to a handle's end), heads (free from
// its beginning) and whole handles. Free memory that touches neither end can't be joined to other
// memory and is left out. Pure: reads arena and stock. Linear in the free nodes and the handles:
// for the slow path, where the alternative is a call to the driver. Valid until one of them
// changes.
#pragma once

#include "pool/arena.hpp"
#include "pool/stock.hpp"

#include <cstdint>
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

}  // namespace vram::pool
