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

}  // namespace vram::gpu
