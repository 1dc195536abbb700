// The memory of the simulated GPU: whose it is, and what lies where in its address space: segments,
// and mappings in reserved ranges. Not thread-safe.
#pragma once

#include "gpu/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::gpu {

// Backing: real bytes in host memory for the simulated GPU's memory, so that a test can write
// through one address and read through another. Opt-in: without it contents do not exist. One piece
// for each handle and each segment; new bytes are poison, so that reading what was never written
// shows.

// All ones: not a number in every floating-point format.
inline constexpr std::byte kPoison{0xff};

class Backing {
 public:
  Backing() = default;  // no bytes
  [[nodiscard]] static Backing poisoned(uint64_t bytes);
  void poison(uint64_t offset, uint64_t bytes);
  void poison() { poison(0, size_bytes_); }

  [[nodiscard]] bool exists() const { return bytes_ != nullptr; }
  // Const as a pointer is: the bytes are not.
  [[nodiscard]] std::byte* at(uint64_t offset) const { return bytes_.get() + offset; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  uint64_t size_bytes_ = 0;
};

// More than any program takes, and half of the address space that segments have.
inline constexpr uint64_t kUnlimited = uint64_t{1} << 46;

struct SimDevice {
  uint64_t capacity_bytes = kUnlimited;  // what the device has
  uint64_t limit_bytes = kUnlimited;  // what this process gets of it: other programs hold the rest
};

// Physical: whose memory it is. Counts what is allocated on each device, against its capacity and
// its limit, and keeps the handles (pieces without an address). A released handle lives on while it
// is mapped.
class Physical {
 public:
  struct Piece {
    uint32_t device = 0;
    uint32_t mappings = 0;
    uint64_t bytes = 0;
    bool released = false;
    Backing backing;
  };

  Physical(const std::vector<SimDevice>& devices, bool with_backing);

  [[nodiscard]] uint32_t device_count() const { return static_cast<uint32_t>(devices_.size()); }
  [[nodiscard]] uint64_t used_bytes(uint32_t device) const { return devices_[device].used_bytes; }
  [[nodiscard]] uint64_t peak_used_bytes(uint32_t device) const {
    return devices_[device].peak_used_bytes;
  }
  [[nodiscard]] MemoryInfo info(uint32_t device) const;
  void set_limit(uint32_t device, uint64_t bytes) { devices_[device].size.limit_bytes = bytes; }

  // Memory for a segment or a handle: false where the device has no room for it.
  [[nodiscard]] bool take(uint32_t device, uint64_t bytes);
  void give_back(uint32_t device, uint64_t bytes);
  [[nodiscard]] Backing new_backing(uint64_t bytes) const;

  [[nodiscard]] Handle create(uint32_t device, uint64_t bytes);  // 0 where there is no room
  // One that find() finds.
  void release(Handle handle);
  // A handle that exists and is not released, or nullptr.
  [[nodiscard]] Piece* find(Handle handle);
  // Any that exists, released or not.
  [[nodiscard]] const Piece& piece(Handle handle) const;
  void add_mapping(Handle handle);
  // With the last mapping a released handle ends; another is poisoned, if so asked.
  void drop_mapping(Handle handle, bool poison);

  [[nodiscard]] uint64_t handle_bytes(uint32_t device) const;
  [[nodiscard]] const std::unordered_map<Handle, Piece>& pieces() const { return pieces_; }

 private:
  struct Device {
    SimDevice size;
    uint64_t used_bytes = 0;
    uint64_t peak_used_bytes = 0;
  };
  void drop(Handle handle);

  std::vector<Device> devices_;
  std::unordered_map<Handle, Piece> pieces_;
  Handle last_handle_ = 0;
  bool with_backing_ = false;
};

inline constexpr uint64_t kGranularityBytes = uint64_t{2} << 20;
inline constexpr uint64_t kSegmentAlignmentBytes = 512;

// Segments: the memory that alloc_segment returned (cudaMalloc). Small ones share pages of one
// granule, first-fit, as the driver's do; larger ones have pages of their own. Keeps what is where;
// memory and addresses of pages are the caller's to take and give back.
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
