// AddressSpace: a model of the addresses that the driver gives: to segments (cudaMalloc) and, in
// another part that never touches theirs, to reservations. Where a segment lies decides which of
// two equal free blocks a caching allocator takes.
//
// The model of segments, as observed of CUDA 13 on Linux: address space is taken from the top
// downwards in regions, rounded up to 32 MiB; a segment lies at the low end of its region; later
// segments go into what regions have unused: the region opened last is tried first, and in it the
// smallest hole that fits. A region that empties becomes a gap, merged with its neighbours; a new
// region takes the top end of the highest gap that has room for it and 32 MiB more, else it goes
// below everything. Known addresses (of a recording) teach it where to continue, how far
// regions reach, and which holes are none because something else is in them.
//
// What else the process maps (kernels, pinned host memory, libraries) is not known, so the driver
// may choose otherwise: a layout other than 0 picks among the possible places at random, the same
// ones each time; or, where no address is known, any place. What comes out the same in several
// layouts does not depend on addresses.
//
// Says nothing about memory. Not thread-safe; a segment costs a scan over its region, and with a
// layout other than 0 over all regions.
#pragma once

#include "gpu/memory.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vram::gpu {

// NewestRoom: of things that have numbers in the order of their making, the
// newest that has at least so much room. A tournament tree over the numbers:
// both calls take the logarithm of the largest. Not thread-safe.
class NewestRoom {
 public:
  // Numbers begin with 1; what has no room any more is as if it had never been.
  void set(uint64_t number, uint64_t room) {
    if (number >= leaves_) grow(number + 1);
    size_t node = leaves_ + number;
    max_[node] = room;
    while (node > 1) {
      node /= 2;
      max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
    }
  }
  // 0 where none has.
  [[nodiscard]] uint64_t newest(uint64_t min_room) const {
    if (leaves_ == 0 || min_room == 0 || max_[1] < min_room) return 0;
    size_t node = 1;
    while (node < leaves_) node = 2 * node + (max_[2 * node + 1] >= min_room ? 1 : 0);
    return node - leaves_;
  }
  [[nodiscard]] uint64_t room_of(uint64_t number) const {
    return number < leaves_ ? max_[leaves_ + number] : 0;
  }

 private:
  void grow(uint64_t count) {
    const std::vector<uint64_t> old(max_.begin() + static_cast<std::ptrdiff_t>(leaves_),
                                    max_.end());
    leaves_ = std::bit_ceil(count);
    max_.assign(2 * leaves_, 0);
    std::ranges::copy(old, max_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (size_t node = leaves_ - 1; node > 0; --node)
      max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
  }
  size_t leaves_ = 0;
  std::vector<uint64_t> max_;  // of node n's leaves; its children are 2n and 2n + 1
};

class AddressSpace {
 public:
  static constexpr uint64_t kRegionBytes = uint64_t{32} << 20;
  // Random places that are tried before one below all regions; all are taken only if these fill
  // most of the address space.
  static constexpr uint64_t kAttempts = 64;
  // The first region ends here unless an address was known before it.
  static constexpr Address kSegmentsTop = 0x7f00'0000'0000;
  // The reservations' part: no real address reaches it, so a recording's never do.
  static constexpr Address kReservationsBase = uint64_t{1} << 58;
  static constexpr Address kReservationsEnd = uint64_t{1} << 62;

  // layout 0: by the rules above; others: at possible places, or anywhere.
  explicit AddressSpace(uint32_t layout = 0, bool is_anywhere = false)
      : layout_(layout), is_anywhere_(is_anywhere) {}

  // Where the next segment of this size would go, from what is known now; 0 where there is no room.
  // take_segment takes it.
  [[nodiscard]] Address predict_segment(uint64_t bytes) const;
  [[nodiscard]] Address take_segment(uint64_t bytes);
  // A segment at a known address; false, and nothing changes, where it would touch another or the
  // reservations' part.
  [[nodiscard]] bool place_segment(Address address, uint64_t bytes);
  // The segment at this address, taken or placed before, is no more.
  void give_back_segment(Address address);

  // First-fit from the low end of the reservations' part; 0 where there is no room.
  [[nodiscard]] Address take_reservation(uint64_t bytes);
  void give_back_reservation(Address address);

  // Regions, gaps and segments lie apart, and what is kept about them is so.
  [[nodiscard]] bool validate(std::string* why) const;

 private:
  struct Segment {
    Address address = 0;
    uint64_t bytes = 0;
    // Not of this simulation: the driver passed over a hole, so something is in it.
    bool foreign = false;
    [[nodiscard]] bool touches(Address at, uint64_t count) const {
      return address < at + count && at < address + bytes;
    }
  };
  struct Region {
    uint64_t bytes = 0;
    uint64_t largest_hole_bytes = 0;
    uint64_t serial = 0;            // counts the regions as they were opened, from 1
    std::vector<Segment> segments;  // in rising order
  };
  using Regions = std::map<Address, Region>;
  using Gaps = std::map<Address, uint64_t>;

  [[nodiscard]] static Segment hole_for(const Region& region, Address base, uint64_t bytes);
  [[nodiscard]] static uint64_t largest_hole(const Region& region, Address base);
  void insert(Region& region, Address base, Segment segment);

  [[nodiscard]] Address possible_place(uint64_t bytes) const;
  [[nodiscard]] Address any_place(uint64_t bytes) const;
  [[nodiscard]] Regions::const_iterator region_with_room(uint64_t bytes) const;
  // After each change of a region's segments.
  void note_room(Address base, Region& region);
  [[nodiscard]] Regions::iterator region_around(Address address);
  [[nodiscard]] Regions::iterator first_touching(Address address);
  [[nodiscard]] Gaps::const_iterator highest_gap(uint64_t bytes) const;
  [[nodiscard]] Address place_for_region(uint64_t bytes) const;
  [[nodiscard]] Address below_all(uint64_t bytes) const;
  [[nodiscard]] Address below_regions(Address top, uint64_t bytes) const;
  [[nodiscard]] bool touches_region(Address address, uint64_t bytes) const;
  [[nodiscard]] bool is_free(Address address, uint64_t bytes) const;
  void evict_foreign(Address address, uint64_t bytes);
  void learn_from(Address address, uint64_t bytes);
  void widen_regions(Segment segment);
  void add_region(Address base, Region region);
  void cut_gaps(Address address, uint64_t bytes);
  static void add_gap(Gaps& gaps, Address address, uint64_t bytes);

  Regions regions_;
  Gaps gaps_;
  uint32_t layout_;
  bool is_anywhere_;
  uint64_t taken_ = 0;  // segments so far
  uint64_t last_serial_ = 0;
  Address lowest_ = 0;                   // of all regions so far; 0 before the first
  NewestRoom largest_holes_;             // of regions, by serial
  std::vector<Address> base_of_serial_;  // of regions that are there
  std::map<Address, uint64_t> reservations_;
  Gaps unreserved_{{kReservationsBase, kReservationsEnd - kReservationsBase}};
};

}  // namespace vram::gpu
