#include "gpu/sim/mappings.hpp"

#include <algorithm>
#include <iterator>

namespace vram::gpu {

bool Mappings::Mapping::is_visible_to(uint32_t device) const {
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

bool Mappings::can_unreserve(Address address, uint64_t bytes) const {
  const auto it = reservations_.find(address);
  return it != reservations_.end() && it->second == bytes && !touches_mapping(address, bytes);
}

bool Mappings::can_map(Address address, uint64_t bytes) const {
  return is_reserved(address, bytes) && !touches_mapping(address, bytes);
}

void Mappings::map(Address address, uint64_t bytes, Handle handle) {
  mappings_[address] = Mapping{bytes, handle, {}};
}

bool Mappings::is_whole(Address address, uint64_t bytes) const {
  if (bytes == 0 || bytes > ~address) return false;
  const Address end = address + bytes;
  Address at = address;
  for (auto it = mappings_.find(address); at < end; ++it) {
    if (it == mappings_.end() || it->first != at) return false;
    at += it->second.bytes;
  }
  return at == end;
}

void Mappings::set_access(Address address, uint64_t bytes, uint32_t device) {
  const auto end = mappings_.lower_bound(address + bytes);
  for (auto it = mappings_.lower_bound(address); it != end; ++it) {
    if (!it->second.is_visible_to(device)) it->second.devices.push_back(device);
  }
}

void Mappings::unmap(Address address, uint64_t bytes) {
  mappings_.erase(mappings_.lower_bound(address), mappings_.lower_bound(address + bytes));
}

const Mappings::Mapping* Mappings::find(Address address, Address* start) const {
  const auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return nullptr;
  const auto& [at, mapping] = *std::prev(next);
  if (address - at >= mapping.bytes) return nullptr;
  *start = at;
  return &mapping;
}

bool Mappings::touches_mapping(Address address, uint64_t bytes) const {
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return true;
  if (next == mappings_.begin()) return false;
  const auto& [at, mapping] = *std::prev(next);
  return at + mapping.bytes > address;
}

bool Mappings::is_reserved(Address address, uint64_t bytes) const {
  const auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin()) return false;
  const auto& [at, reserved] = *std::prev(next);
  return address - at < reserved && bytes <= reserved - (address - at);
}

bool Mappings::validate(std::string* why) const {
  Address end = 0;
  const char* wrong = nullptr;
  for (const auto& [address, bytes] : reservations_) {
    if (address < end) wrong = "two reservations overlap";
    end = address + bytes;
  }
  end = 0;
  for (const auto& [address, mapping] : mappings_) {
    if (address < end) wrong = "two mappings overlap";
    end = address + mapping.bytes;
    if (!is_reserved(address, mapping.bytes)) wrong = "a mapping leaves its reservation";
  }
  if (wrong != nullptr && why != nullptr) *why = wrong;
  return wrong == nullptr;
}

}  // namespace vram::gpu
