// Held: as much of a device's memory as can be had, in large pieces, for as long as this lives. One
// thread at a time.
#pragma once

#include "stress/card.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace vram::stress {

// A part of a piece, of at most kChunkBytes: what is written and read at once.
inline constexpr uint64_t kChunkBytes = uint64_t{4} << 20;
struct Chunk {
  Address address = 0;
  uint64_t bytes = 0;
  gpu::Handle handle = 0;  // of its piece; where the device can't map, the segment's address
  uint64_t offset_bytes = 0;
};

// Whether memory can be mapped on it; else there are segments alone.
[[nodiscard]] bool can_map(Card& card);

class Held {
 public:
  // Pieces of so many bytes, as long as they can be had.
  Held(Card& card, uint64_t piece_bytes)
      : memory_(card.memory()),
        ordinal_(card.ordinal()),
        is_mapped_(can_map(card)),
        piece_bytes_(piece_bytes) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();

  // Takes memory until so little is free, or no more is to be had, or it should end.
  void take_all_but(uint64_t leave_bytes, const std::function<bool()>& should_end);
  // Gives pieces back until so much is free again; how much it was.
  uint64_t give_back_for(uint64_t leave_bytes);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t count() const { return pieces_.size(); }
  [[nodiscard]] std::vector<Chunk> chunks() const;

 private:
  struct Piece {
    Address address = 0;
    uint64_t bytes = 0;
    gpu::Handle handle = 0;
  };
  [[nodiscard]] Status take(uint64_t bytes);
  [[nodiscard]] Status take_mapped(Piece& piece);
  void give_back(const Piece& piece);

  gpu::Memory& memory_;
  uint32_t ordinal_;
  bool is_mapped_;
  uint64_t piece_bytes_;
  std::vector<Piece> pieces_;
  uint64_t bytes_ = 0;
};

}  // namespace vram::stress
