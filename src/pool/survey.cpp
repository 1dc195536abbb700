#include "pool/survey.hpp"

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
  ends_bytes_ = max_at_ends();
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

uint64_t Survey::max_at_ends() const {
  const FreePiece& tail = tails_.back();
  const FreePiece& head = heads_.back();
  if (tail.handle != head.handle || tail.handle == kNoHandle) return tail.bytes + head.bytes;
  return std::max(tail.bytes + heads_[heads_.size() - 2].bytes,
                  head.bytes + tails_[tails_.size() - 2].bytes);
}

uint64_t Survey::missing_bytes(uint64_t bytes) const {
  const uint64_t there = whole_bytes_ + ends_bytes_;
  return bytes > there ? bytes - there : 0;
}

}  // namespace vram::pool
