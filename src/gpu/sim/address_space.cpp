#include "gpu/sim/address_space.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <iterator>

namespace vram::gpu {

namespace {
constexpr uint64_t round_down(uint64_t value) {
  return value / AddressSpace::kRegionBytes * AddressSpace::kRegionBytes;
}
constexpr uint64_t whole_regions(uint64_t value) {
  return round_down(value + AddressSpace::kRegionBytes - 1);
}
// A number that looks random for each n (the finalizer of "SplitMix64", Steele et al. 2014).
constexpr uint64_t scramble(uint64_t n) {
  n += 0x9e3779b97f4a7c15;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
  n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
  return n ^ (n >> 31);
}
}  // namespace

// The holes of a region, in rising order, the tail last: visit(address, bytes).
template <typename Region, typename Visit>
static void for_holes(const Region& region, Address base, Visit visit) {
  Address at = base;
  for (const auto& segment : region.segments) {
    if (segment.address > at) visit(at, segment.address - at);
    at = segment.address + segment.bytes;
  }
  if (base + region.bytes > at) visit(at, base + region.bytes - at);
}

AddressSpace::Segment AddressSpace::hole_for(const Region& region, Address base, uint64_t bytes) {
  Segment best;
  for_holes(region, base, [&](Address hole, uint64_t hole_bytes) {
    const bool fits = hole_bytes >= bytes;
    if (fits && (best.bytes == 0 || hole_bytes < best.bytes)) best = {hole, hole_bytes};
  });
  return best;
}

uint64_t AddressSpace::largest_hole(const Region& region, Address base) {
  uint64_t largest = 0;
  for_holes(region, base, [&](Address, uint64_t bytes) { largest = std::max(largest, bytes); });
  return largest;
}

void AddressSpace::insert(Region& region, Address base, Segment segment) {
  const auto next =
      std::lower_bound(region.segments.begin(), region.segments.end(), segment.address,
                       [](const Segment& s, Address address) { return s.address < address; });
  region.segments.insert(next, segment);
  note_room(base, region);
}

// One that has not been added yet has no serial.
void AddressSpace::note_room(Address base, Region& region) {
  region.largest_hole_bytes = largest_hole(region, base);
  if (region.serial == 0) return;
  largest_holes_.set(region.serial, region.largest_hole_bytes);
  if (base_of_serial_.size() <= region.serial) base_of_serial_.resize(region.serial + 1);
  base_of_serial_[region.serial] = base;
}

Address AddressSpace::predict_segment(uint64_t bytes) const {
  if (bytes == 0 || bytes > kSegmentsTop) return 0;
  if (layout_ != 0) return is_anywhere_ ? any_place(bytes) : possible_place(bytes);
  const auto region = region_with_room(bytes);
  if (region != regions_.end()) return hole_for(region->second, region->first, bytes).address;
  return place_for_region(whole_regions(bytes));
}

// One of the places that the driver might choose: the best hole of a region, a gap, or below
// everything.
Address AddressSpace::possible_place(uint64_t bytes) const {
  std::vector<Address> places;
  for (const auto& [base, region] : regions_) {
    const Segment hole = hole_for(region, base, bytes);
    if (hole.bytes != 0) places.push_back(hole.address);
  }
  for (const auto& [gap, gap_bytes] : gaps_) {
    if (gap_bytes >= whole_regions(bytes)) places.push_back(gap + gap_bytes - whole_regions(bytes));
  }
  const Address below = below_all(whole_regions(bytes));
  if (below != 0) places.push_back(below);
  if (places.empty()) return 0;
  return places[scramble((uint64_t{layout_} << 32) + taken_) % places.size()];
}

// Where the driver might find room if nothing is known of what else the process maps.
Address AddressSpace::any_place(uint64_t bytes) const {
  const uint64_t whole = whole_regions(bytes);
  const uint64_t places = (kSegmentsTop - std::min(whole, kSegmentsTop)) / kRegionBytes;
  const uint64_t drawn = (uint64_t{layout_} << 40) + (taken_ << 8);
  for (uint64_t attempt = 0; places != 0 && attempt < kAttempts; ++attempt) {
    const Address address = (1 + scramble(drawn + attempt) % places) * kRegionBytes;
    if (!touches_region(address, whole)) return address;
  }
  return below_all(whole);
}

Address AddressSpace::take_segment(uint64_t bytes) {
  const Address address = predict_segment(bytes);
  if (address == 0) return 0;
  ++taken_;
  const auto around = region_around(address);
  if (around == regions_.end()) {
    add_region(address, {.bytes = whole_regions(bytes),
                         .largest_hole_bytes = whole_regions(bytes) - bytes,
                         .serial = 0,
                         .segments = {{address, bytes}}});
  } else {
    insert(around->second, around->first, {address, bytes});
  }
  return address;
}

bool AddressSpace::place_segment(Address address, uint64_t bytes) {
  if (address == 0 || bytes == 0 || address >= kReservationsBase ||
      bytes > kReservationsBase - address || !is_free(address, bytes))
    return false;
  evict_foreign(address, bytes);
  learn_from(address, bytes);
  const auto around = region_around(address);
  if (around != regions_.end() && address + bytes <= around->first + around->second.bytes) {
    insert(around->second, around->first, {address, bytes});
  } else {
    widen_regions({address, bytes});
  }
  return true;
}

bool AddressSpace::is_free(Address address, uint64_t bytes) const {
  for (auto it = regions_.lower_bound(address + bytes); it != regions_.begin();) {
    const auto& [base, region] = *--it;
    if (base + region.bytes <= address) return true;
    for (const Segment& s : region.segments) {
      if (!s.foreign && s.touches(address, bytes)) return false;
    }
  }
  return true;
}

// The foreign mapping that was assumed there is gone, or never existed.
void AddressSpace::evict_foreign(Address address, uint64_t bytes) {
  const auto last = regions_.lower_bound(address + bytes);
  for (auto it = first_touching(address); it != last; ++it) {
    auto& [base, region] = *it;
    std::erase_if(region.segments,
                  [&](const Segment& s) { return s.foreign && s.touches(address, bytes); });
    note_room(base, region);
  }
}

// The rules would have taken another hole: what the driver passed over, others use.
void AddressSpace::learn_from(Address address, uint64_t bytes) {
  for (;;) {
    const auto room = region_with_room(bytes);
    if (room == regions_.end()) return;
    Segment foreign = hole_for(room->second, room->first, bytes);
    foreign.foreign = true;
    if (foreign.touches(address, bytes)) {
      if (foreign.address >= address) return;
      foreign.bytes = address - foreign.address;
    }
    insert(regions_.at(room->first), room->first, foreign);
  }
}

// Opens a region for a known segment, or joins what it crosses: there the driver's region was
// larger than rounding says.
void AddressSpace::widen_regions(Segment segment) {
  const Address segment_end = segment.address + segment.bytes;
  const auto first = first_touching(segment.address);
  const auto last = regions_.lower_bound(segment_end);
  const Address ceiling = last == regions_.end() ? kReservationsBase : last->first;
  Address base = segment.address;
  Address end = std::min(whole_regions(segment_end), ceiling);
  Region joined;
  for (auto it = first; it != last; ++it) {
    base = std::min(base, it->first);
    end = std::max(end, it->first + it->second.bytes);
    joined.serial = std::max(joined.serial, it->second.serial);
    joined.segments.insert(joined.segments.end(), it->second.segments.begin(),
                           it->second.segments.end());
    largest_holes_.set(it->second.serial, 0);
  }
  joined.bytes = end - base;
  insert(joined, base, segment);
  regions_.erase(first, last);
  add_region(base, std::move(joined));
}

void AddressSpace::give_back_segment(Address address) {
  const auto it = region_around(address);
  VRAM_CHECK(it != regions_.end());
  auto& [base, region] = *it;
  const size_t erased = std::erase_if(
      region.segments, [address](const Segment& s) { return !s.foreign && s.address == address; });
  VRAM_CHECK(erased == 1);
  if (!region.segments.empty()) return note_room(base, region);
  largest_holes_.set(region.serial, 0);
  add_gap(gaps_, base, region.bytes);
  regions_.erase(it);
}

Address AddressSpace::take_reservation(uint64_t bytes) {
  if (bytes == 0) return 0;
  const auto gap =
      std::ranges::find_if(unreserved_, [=](const auto& each) { return each.second >= bytes; });
  if (gap == unreserved_.end()) return 0;
  const auto [at, gap_bytes] = *gap;
  unreserved_.erase(gap);
  if (gap_bytes > bytes) unreserved_.emplace(at + bytes, gap_bytes - bytes);
  reservations_.emplace(at, bytes);
  return at;
}

void AddressSpace::give_back_reservation(Address address) {
  const auto it = reservations_.find(address);
  VRAM_CHECK(it != reservations_.end());
  add_gap(unreserved_, address, it->second);
  reservations_.erase(it);
}

AddressSpace::Regions::const_iterator AddressSpace::region_with_room(uint64_t bytes) const {
  const uint64_t serial = largest_holes_.newest(bytes);
  return serial == 0 ? regions_.end() : regions_.find(base_of_serial_[serial]);
}

AddressSpace::Regions::iterator AddressSpace::region_around(Address address) {
  auto it = regions_.upper_bound(address);
  if (it == regions_.begin()) return regions_.end();
  --it;
  return address < it->first + it->second.bytes ? it : regions_.end();
}

// The first region that ends above the address.
AddressSpace::Regions::iterator AddressSpace::first_touching(Address address) {
  const auto around = region_around(address);
  return around != regions_.end() ? around : regions_.lower_bound(address);
}

bool AddressSpace::touches_region(Address address, uint64_t bytes) const {
  const auto next = regions_.lower_bound(address);
  if (next != regions_.end() && next->first < address + bytes) return true;
  if (next == regions_.begin()) return false;
  const auto& [base, region] = *std::prev(next);
  return base + region.bytes > address;
}

AddressSpace::Gaps::const_iterator AddressSpace::highest_gap(uint64_t bytes) const {
  for (auto it = gaps_.end(); it != gaps_.begin();) {
    --it;
    if (it->second >= bytes + kRegionBytes) return it;
  }
  return gaps_.end();
}

Address AddressSpace::place_for_region(uint64_t bytes) const {
  const auto gap = highest_gap(bytes);
  return gap != gaps_.end() ? gap->first + gap->second - bytes : below_all(bytes);
}

Address AddressSpace::below_all(uint64_t bytes) const {
  const Address below = below_regions(lowest_ == 0 ? kSegmentsTop : lowest_, bytes);
  // Known addresses may lie so low that nothing fits below them.
  return below != 0 ? below : below_regions(kSegmentsTop, bytes);
}

// The highest aligned place below top that touches no region; 0 where there is none.
Address AddressSpace::below_regions(Address top, uint64_t bytes) const {
  Address ceiling = round_down(top);
  while (ceiling > bytes) {
    const Address address = ceiling - bytes;
    const auto next = regions_.lower_bound(ceiling);
    if (next == regions_.begin()) return address;
    const auto& [base, region] = *std::prev(next);
    if (base + region.bytes <= address) return address;
    ceiling = round_down(base);
  }
  return 0;
}

void AddressSpace::add_region(Address base, Region region) {
  cut_gaps(base, region.bytes);
  if (region.serial == 0) region.serial = ++last_serial_;
  note_room(base, region);
  regions_.emplace(base, std::move(region));
  lowest_ = lowest_ == 0 ? base : std::min(lowest_, base);
}

void AddressSpace::cut_gaps(Address address, uint64_t bytes) {
  const Address end = address + bytes;
  auto it = gaps_.upper_bound(address);
  if (it != gaps_.begin()) --it;
  while (it != gaps_.end() && it->first < end) {
    const Address gap = it->first;
    const Address gap_end = gap + it->second;
    if (gap_end <= address) {
      ++it;
      continue;
    }
    it = gaps_.erase(it);
    if (gap < address) gaps_.emplace(gap, address - gap);
    if (gap_end > end) gaps_.emplace(end, gap_end - end);
  }
}

void AddressSpace::add_gap(Gaps& gaps, Address address, uint64_t bytes) {
  auto next = gaps.lower_bound(address);
  if (next != gaps.end() && next->first == address + bytes) {
    bytes += next->second;
    next = gaps.erase(next);
  }
  if (next != gaps.begin()) {
    auto& [before, before_bytes] = *std::prev(next);
    if (before + before_bytes == address) {
      before_bytes += bytes;
      return;
    }
  }
  gaps.emplace(address, bytes);
}

bool AddressSpace::validate(std::string* why) const {
  const auto wrong = [why](const char* what) {
    if (why != nullptr) *why = what;
    return false;
  };
  Address end = 0;
  for (const auto& [base, region] : regions_) {
    if (base < end) return wrong("two regions of addresses overlap");
    end = base + region.bytes;
    if (region.segments.empty()) return wrong("a region of addresses is empty");
    Address segment_end = base;
    for (const Segment& segment : region.segments) {
      if (segment.address < segment_end) return wrong("two segments overlap in their region");
      segment_end = segment.address + segment.bytes;
    }
    if (segment_end > end) return wrong("a segment leaves its region");
    if (region.largest_hole_bytes != largest_hole(region, base))
      return wrong("a region's largest hole is not what was kept");
    if (largest_holes_.room_of(region.serial) != region.largest_hole_bytes ||
        base_of_serial_[region.serial] != base)
      return wrong("a region is not found by its serial");
  }
  end = 0;
  for (const auto& [gap, bytes] : gaps_) {
    if (gap < end) return wrong("two gaps overlap");
    end = gap + bytes;
    if (touches_region(gap, bytes)) return wrong("a gap overlaps a region");
  }
  end = kReservationsBase;
  for (const auto& [address, bytes] : reservations_) {
    if (address < end) return wrong("two reservations overlap");
    end = address + bytes;
  }
  uint64_t unknown_bytes = kReservationsEnd - kReservationsBase;
  for (const auto& [address, bytes] : reservations_) unknown_bytes -= bytes;
  for (const auto& [address, bytes] : unreserved_) unknown_bytes -= bytes;
  if (unknown_bytes != 0) return wrong("what is not reserved is not what was kept");
  return true;
}

}  // namespace vram::gpu
