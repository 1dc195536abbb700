// Mappings: what lies where in reserved address space, and which devices may see it. Answers
// whether a call keeps the driver's rules; the caller asks before it changes anything. Says nothing
// about whose memory it is. Not thread-safe.
#pragma once

#include "gpu/memory.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vram::gpu {

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
