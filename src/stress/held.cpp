#include "stress/held.hpp"

#include "base/bytes.hpp"

#include <algorithm>

namespace vram::stress {
bool can_map(Card& card) {
  Address address = 0;
  gpu::Memory& memory = card.memory();
  const uint64_t bytes = memory.granularity_bytes();
  const Status status = memory.reserve(bytes, &address);
  if (status == Status::kOk) (void)memory.unreserve(address, bytes);
  return status != Status::kNotSupported;
}

Held::~Held() {
  for (const Piece& piece : pieces_) give_back(piece);
}

void Held::take_all_but(uint64_t leave_bytes, const std::function<bool()>& should_end) {
  const uint64_t unit = memory_.granularity_bytes();
  uint64_t largest = round_up(piece_bytes_, unit);
  gpu::MemoryInfo info;
  while (largest >= unit && !should_end() && memory_.memory_info(ordinal_, &info) == Status::kOk) {
    if (info.free_bytes < leave_bytes + unit) return;
    const uint64_t wanted = std::min(largest, (info.free_bytes - leave_bytes) / unit * unit);
    const Status status = take(wanted);
    if (status == Status::kOutOfMemory) largest = wanted / 2 / unit * unit;
    if (status != Status::kOk && status != Status::kOutOfMemory) return;
  }
}

Status Held::take(uint64_t bytes) {
  Piece piece{.bytes = bytes};
  const Status status =
      is_mapped_ ? take_mapped(piece) : memory_.alloc_segment(ordinal_, bytes, &piece.address);
  if (status != Status::kOk) return status;
  if (!is_mapped_) piece.handle = piece.address;
  pieces_.push_back(piece);
  bytes_ += bytes;
  return status;
}

Status Held::take_mapped(Piece& piece) {
  Status status = memory_.create(ordinal_, piece.bytes, &piece.handle);
  if (status != Status::kOk) return status;
  status = memory_.reserve(piece.bytes, &piece.address);
  if (status == Status::kOk) {
    status = memory_.map(piece.address, piece.bytes, piece.handle);
    if (status == Status::kOk) {
      status = memory_.set_access(piece.address, piece.bytes, ordinal_);
      if (status != Status::kOk) (void)memory_.unmap(piece.address, piece.bytes);
    }
    if (status != Status::kOk) (void)memory_.unreserve(piece.address, piece.bytes);
  }
  if (status != Status::kOk) (void)memory_.release(piece.handle);
  return status;
}

void Held::give_back(const Piece& piece) {
  if (!is_mapped_) {
    (void)memory_.free_segment(ordinal_, piece.address);
    return;
  }
  (void)memory_.unmap(piece.address, piece.bytes);
  (void)memory_.unreserve(piece.address, piece.bytes);
  (void)memory_.release(piece.handle);
}

uint64_t Held::give_back_for(uint64_t leave_bytes) {
  uint64_t given = 0;
  gpu::MemoryInfo info;
  while (!pieces_.empty() && memory_.memory_info(ordinal_, &info) == Status::kOk &&
         info.free_bytes < leave_bytes) {
    give_back(pieces_.back());
    given += pieces_.back().bytes;
    pieces_.pop_back();
  }
  bytes_ -= given;
  return given;
}

std::vector<Chunk> Held::chunks() const {
  std::vector<Chunk> chunks;
  for (const Piece& piece : pieces_) {
    for (uint64_t at = 0; at < piece.bytes; at += kChunkBytes) {
      chunks.push_back({.address = piece.address + at,
                        .bytes = std::min(kChunkBytes, piece.bytes - at),
                        .handle = piece.handle,
                        .offset_bytes = at});
    }
  }
  return chunks;
}

}  // namespace vram::stress
