// Stock: the physical memory that the pool holds: handles of several sizes, each mapped at its home
// address for as long as it lives. The home addresses are one range, reserved at the start, with
// two sides: handles adjoin others of their side alone, so that what one side holds is not parted
// by what the other gets. Where the device can't map, a handle is a segment, and its home is where
// the driver put it. Below the pool's recipe; knows nothing of the contents of the memory. A call
// that fails changes nothing and leaves nothing behind. One thread at a time; allocates for each
// handle.
#pragma once

#include "pool/interface.hpp"
#include "pool/stamp.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace vram::pool {

using HandleId = uint32_t;
inline constexpr HandleId kNoHandle = std::numeric_limits<HandleId>::max();
inline constexpr HandleId kOrphan = kNoHandle - 1;  // what is mapped there is out of use

class Stock {
 public:
  static constexpr uint32_t kSides = 2;

  struct Piece {
    gpu::Handle handle = 0;
    Address home = 0;
    uint64_t bytes = 0;  // 0: none has this id now
    [[nodiscard]] Address end() const { return home + bytes; }
  };

  // memory must outlive it.
  Stock(gpu::Memory& memory, uint32_t ordinal, Backing backing)
      : memory_(memory), ordinal_(ordinal), backing_(backing) {}
  ~Stock();
  Stock(const Stock&) = delete;
  Stock& operator=(const Stock&) = delete;

  // Once, before all else: the range of home addresses. Segments need none.
  [[nodiscard]] Status reserve(uint64_t bytes);
  // A new handle, mapped at its home and accessible.
  [[nodiscard]] Status create(uint64_t bytes, uint32_t side, HandleId* id);
  // A handle that nothing uses any more, and that is mapped nowhere but at its home.
  [[nodiscard]] Status release(HandleId id);

  [[nodiscard]] const Piece& operator[](HandleId id) const { return pieces_[id]; }
  [[nodiscard]] HandleId limit() const { return static_cast<HandleId>(pieces_.size()); }
  // Whose home holds the address, which must be in one.
  [[nodiscard]] HandleId at(Address address) const {
    if (backing_ == Backing::kSegments) return segment_at(address);
    const Side& side = sides_[side_at(address)];
    return side.by_granule[(address - side.base) / granule_bytes_];
  }
  [[nodiscard]] Backing backing() const { return backing_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t count() const { return pieces_.size() - spare_.size(); }
  // Where the next handle's home will be if there is room; unknown for segments.
  [[nodiscard]] Address next_home(uint32_t side) const {
    return sides_[side].base + sides_[side].end * granule_bytes_;
  }

  // Where homes may be: no address outside is one. Of segments nothing is known.
  [[nodiscard]] Address base() const { return base_; }
  [[nodiscard]] uint64_t reserved_bytes() const { return reserved_bytes_; }

  [[nodiscard]] std::string validate() const;

 private:
  struct Side {
    Address base = 0;
    uint64_t end = 0;  // granules up to here were used
    std::vector<HandleId> by_granule;
  };
  [[nodiscard]] uint32_t side_at(Address address) const { return address < sides_[1].base ? 0 : 1; }
  [[nodiscard]] HandleId segment_at(Address address) const;
  [[nodiscard]] Status create_segment(uint64_t bytes, HandleId* id);
  [[nodiscard]] Status take_back(const Piece& piece);
  [[nodiscard]] Address find_home(uint64_t bytes, uint32_t side) const;  // 0: no room
  [[nodiscard]] Status map_home(const Piece& piece);
  void give_back(const Piece& piece, bool is_mapped);
  void mark(const Piece& piece, HandleId id);
  [[nodiscard]] HandleId keep(const Piece& piece);

  gpu::Memory& memory_;
  uint32_t ordinal_;
  Backing backing_;
  uint64_t granule_bytes_ = 1;
  Address base_ = 0;
  uint64_t reserved_bytes_ = 0;
  uint64_t bytes_ = 0;
  std::array<Side, kSides> sides_;
  std::vector<Piece> pieces_;
  std::vector<HandleId> spare_;
  std::vector<Piece> orphans_;  // the driver refused to take them back: tried again at the end
};

}  // namespace vram::pool
