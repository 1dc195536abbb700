// What lies where in the address space of the simulated GPU: segments, and mappings in reserved
// ranges.
//
// Segments: the memory that alloc_segment returned (cudaMalloc). Small ones share pages of one
// granule, first-fit, as the driver's do; larger ones have pages of their own. Keeps what is where;
// memory and addresses of pages are the caller's to take and give back. Not thread-safe.
#pragma once

#include "gpu/memory.hpp"
#include "gpu/sim/physical.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vram::gpu {

inline constexpr uint64_t kGranularityBytes = uint64_t{2} << 20;
inline constexpr uint64_t kSegmentAlignmentBytes = 512;

class Segments {
 public:
  struct Tenant {
    Address address = 0;
    uint64_t bytes = 0;
  };
  struct Pages {
    uint32_t device = 0;
    bool shared = false;
    uint64_t bytes = 0;
    std::vector<Tenant> tenants;  // in rising order; one where not shared
    Backing backing;
  };

  // Pages without a tenant; shared ones serve take_shared.
  void add_pages(Address address, Pages pages) { pages_[address] = std::move(pages); }
  // A small segment in a shared page of the device; 0 where none has room.
  [[nodiscard]] Address take_shared(uint32_t device, uint64_t bytes);

  // The pages that hold the segment which starts at the address, and where they start; nullptr
  // where none does.
  [[nodiscard]] const Pages* find(Address address, Address* start) const;
  // Ends that segment; true when its pages are empty now and have left the table.
  [[nodiscard]] bool drop(Address address);
  // The segment that holds the address (anywhere inside) and its pages.
  [[nodiscard]] const Pages* find_inside(Address address, Address* start, Tenant* tenant) const;

  [[nodiscard]] uint64_t page_bytes(uint32_t device) const;
  [[nodiscard]] bool validate(std::string* why) const;

 private:
  std::map<Address, Pages> pages_;
};

// Mappings: what lies where in reserved address space, and which devices may see it. Answers
// whether a call keeps the driver's rules; the caller asks before it changes anything. Says nothing
// about whose memory it is. Not thread-safe.
class Mappings {
 public:
  struct Mapping {
    uint64_t bytes = 0;
    Handle handle = 0;
    std::vector<uint32_t> devices;  // that may read and write
    [[nodiscard]] bool is_visible_to(uint32_t device) const;
  };

  void add_reservation(Address address, uint64_t bytes) { reservations_[address] = bytes; }
  void drop_reservation(Address address) { reservations_.erase(address); }
  // Exactly one reservation, with nothing mapped.
  [[nodiscard]] bool can_unreserve(Address address, uint64_t bytes) const;

  // Inside one reservation, touching no mapping.
  [[nodiscard]] bool can_map(Address address, uint64_t bytes) const;
  void map(Address address, uint64_t bytes, Handle handle);
  // One or more whole mappings without a hole between them.
  [[nodiscard]] bool is_whole(Address address, uint64_t bytes) const;
  void set_access(Address address, uint64_t bytes, uint32_t device);
  void unmap(Address address, uint64_t bytes);

  // The mapping that holds the address and where it starts; nullptr where nothing is mapped.
  [[nodiscard]] const Mapping* find(Address address, Address* start) const;
  // visit(mapping) for each of a range that is_whole.
  template <typename Visit>
  void for_each(Address address, uint64_t bytes, Visit visit) const {
    const auto end = mappings_.lower_bound(address + bytes);
    for (auto it = mappings_.lower_bound(address); it != end; ++it) visit(it->second);
  }

  [[nodiscard]] const std::map<Address, Mapping>& all() const { return mappings_; }
  [[nodiscard]] bool validate(std::string* why) const;

 private:
  [[nodiscard]] bool touches_mapping(Address address, uint64_t bytes) const;
  [[nodiscard]] bool is_reserved(Address address, uint64_t bytes) const;

  std::map<Address, uint64_t> reservations_;
  std::map<Address, Mapping> mappings_;
};

}  // namespace vram::gpu
