#include "pool/stock.hpp"

#include "base/result.hpp"

namespace vram::pool {

Status Stock::reserve(uint64_t bytes) {
  granule_bytes_ = memory_.granularity_bytes();
  if (backing_ == Backing::kSegments) return Status::kOk;
  const Status status = memory_.reserve(bytes, &base_);
  if (status != Status::kOk) return status;
  reserved_bytes_ = bytes;
  for (uint32_t side = 0; side < kSides; ++side)
    sides_[side].base = base_ + side * (bytes / kSides);
  return status;
}

// Nothing can be done about a driver that fails here.
Stock::~Stock() {
  for (const Piece& piece : orphans_) {
    if (piece.home != 0) (void)memory_.unmap(piece.home, piece.bytes);
    (void)memory_.release(piece.handle);
  }
  for (const Piece& piece : pieces_) {
    if (piece.bytes == 0 || take_back(piece) != Status::kOk) continue;
    if (backing_ == Backing::kVirtual) (void)memory_.release(piece.handle);
  }
  if (reserved_bytes_ != 0) (void)memory_.unreserve(base_, reserved_bytes_);
}

// Behind the last one; where the range ends, the first gap that released handles left.
Address Stock::find_home(uint64_t bytes, uint32_t side) const {
  const Side& homes = sides_[side];
  if (homes.end * granule_bytes_ + bytes <= reserved_bytes_ / kSides) return next_home(side);
  const uint64_t wanted = bytes / granule_bytes_;
  uint64_t run = 0;
  for (uint64_t granule = 0; granule < homes.end; ++granule) {
    run = homes.by_granule[granule] == kNoHandle ? run + 1 : 0;
    if (run == wanted) return homes.base + (granule + 1 - wanted) * granule_bytes_;
  }
  return 0;
}

Status Stock::map_home(const Piece& piece) {
  Status status = memory_.map(piece.home, piece.bytes, piece.handle);
  const bool is_mapped = status == Status::kOk;
  if (is_mapped) status = memory_.set_access(piece.home, piece.bytes, ordinal_);
  if (status != Status::kOk) give_back(piece, is_mapped);
  return status;
}

void Stock::give_back(const Piece& piece, bool is_mapped) {
  Piece orphan = piece;
  if (!is_mapped || memory_.unmap(piece.home, piece.bytes) == Status::kOk) orphan.home = 0;
  if (orphan.home == 0 && memory_.release(piece.handle) == Status::kOk) return;
  orphans_.push_back(orphan);
  if (orphan.home != 0) mark(piece, kOrphan);
}

HandleId Stock::segment_at(Address address) const {
  for (HandleId id = 0; id < limit(); ++id) {
    if (pieces_[id].home <= address && address < pieces_[id].end()) return id;
  }
  return kNoHandle;
}

Status Stock::create_segment(uint64_t bytes, HandleId* id) {
  Piece piece{.bytes = bytes};
  const Status status = memory_.alloc_segment(ordinal_, bytes, &piece.home);
  if (status != Status::kOk) return status;
  *id = keep(piece);
  bytes_ += bytes;
  return status;
}

Status Stock::create(uint64_t bytes, uint32_t side, HandleId* id) {
  if (backing_ == Backing::kSegments) return create_segment(bytes, id);
  Piece piece{.home = find_home(bytes, side), .bytes = bytes};
  if (piece.home == 0) return Status::kOutOfMemory;
  Status status = memory_.create(ordinal_, bytes, &piece.handle);
  if (status != Status::kOk) return status;
  status = map_home(piece);
  if (status != Status::kOk) return status;
  *id = keep(piece);
  mark(piece, *id);
  bytes_ += bytes;
  return Status::kOk;
}

HandleId Stock::keep(const Piece& piece) {
  if (spare_.empty()) {
    pieces_.push_back(piece);
    return limit() - 1;
  }
  const HandleId id = spare_.back();
  spare_.pop_back();
  pieces_[id] = piece;
  return id;
}

void Stock::mark(const Piece& piece, HandleId id) {
  Side& side = sides_[side_at(piece.home)];
  std::vector<HandleId>& ids = side.by_granule;
  const uint64_t first = (piece.home - side.base) / granule_bytes_;
  const uint64_t last = first + piece.bytes / granule_bytes_;
  if (last > ids.size()) ids.resize(last, kNoHandle);
  for (uint64_t granule = first; granule < last; ++granule) ids[granule] = id;
  if (id != kNoHandle && last > side.end) side.end = last;
  while (side.end > 0 && ids[side.end - 1] == kNoHandle) --side.end;
}

Status Stock::take_back(const Piece& piece) {
  if (backing_ == Backing::kSegments) return memory_.free_segment(ordinal_, piece.home);
  return memory_.unmap(piece.home, piece.bytes);
}

Status Stock::release(HandleId id) {
  const Piece piece = pieces_[id];
  VRAM_CHECK(piece.bytes != 0);
  const Status status = take_back(piece);
  if (status != Status::kOk) return status;
  if (backing_ == Backing::kVirtual) {
    give_back(piece, false);
    mark(piece, kNoHandle);
  }
  pieces_[id] = Piece{};
  spare_.push_back(id);
  bytes_ -= piece.bytes;
  return Status::kOk;
}

std::string Stock::validate() const {
  uint64_t bytes = 0;
  for (HandleId id = 0; id < limit(); ++id) {
    const Piece& piece = pieces_[id];
    if (piece.bytes == 0) continue;
    bytes += piece.bytes;
    if (at(piece.home) != id || at(piece.end() - 1) != id) return "a handle's home is another's";
  }
  if (bytes != bytes_) return "the stock's bytes are not those of its handles";
  if (backing_ == Backing::kSegments) return {};
  uint64_t granules = 0;
  for (const Side& side : sides_) {
    for (const HandleId id : side.by_granule) granules += id < kOrphan ? 1 : 0;
  }
  if (granules * granule_bytes_ != bytes_) return "home addresses are not those of the handles";
  return {};
}

}  // namespace vram::pool
