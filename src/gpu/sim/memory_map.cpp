#include "gpu/sim/memory_map.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <algorithm>
#include <iterator>

namespace vram::gpu {
namespace {

constexpr uint64_t aligned(uint64_t bytes) { return round_up(bytes, kSegmentAlignmentBytes); }

// First-fit among the tenants of a shared page; false where it has no room.
bool add_tenant(Segments::Pages& pages, Address start, uint64_t bytes, Address* address) {
  Address at = start;
  auto it = pages.tenants.begin();
  while (it != pages.tenants.end() && it->address - at < bytes) {
    at = aligned(it->address + it->bytes);
    ++it;
  }
  const Address end = start + pages.bytes;
  if (it == pages.tenants.end() && (at > end || end - at < bytes)) return false;
  pages.tenants.insert(it, {at, bytes});
  *address = at;
  return true;
}

}  // namespace

Physical::Physical(const std::vector<SimDevice>& devices, bool with_backing)
    : with_backing_(with_backing) {
  devices_.reserve(devices.size());
  for (const SimDevice& size : devices) devices_.push_back({size, 0, 0});
}

MemoryInfo Physical::info(uint32_t device) const {
  const Device& d = devices_[device];
  const uint64_t room = std::min(d.size.capacity_bytes, d.size.limit_bytes);
  return {room - std::min(room, d.used_bytes), d.size.capacity_bytes};
}

bool Physical::take(uint32_t device, uint64_t bytes) {
  if (bytes > info(device).free_bytes) return false;
  Device& d = devices_[device];
  d.used_bytes += bytes;
  d.peak_used_bytes = std::max(d.peak_used_bytes, d.used_bytes);
  return true;
}

void Physical::give_back(uint32_t device, uint64_t bytes) {
  VRAM_CHECK(devices_[device].used_bytes >= bytes);
  devices_[device].used_bytes -= bytes;
}

Backing Physical::new_backing(uint64_t bytes) const {
  return with_backing_ ? Backing::poisoned(bytes) : Backing{};
}

Handle Physical::create(uint32_t device, uint64_t bytes) {
  if (!take(device, bytes)) return 0;
  Piece piece;
  piece.device = device;
  piece.bytes = bytes;
  piece.backing = new_backing(bytes);
  pieces_.emplace(++last_handle_, std::move(piece));
  return last_handle_;
}

void Physical::release(Handle handle) {
  Piece* piece = find(handle);
  VRAM_CHECK(piece != nullptr);
  piece->released = true;
  if (piece->mappings == 0) drop(handle);
}

Physical::Piece* Physical::find(Handle handle) {
  const auto it = pieces_.find(handle);
  return it == pieces_.end() || it->second.released ? nullptr : &it->second;
}

const Physical::Piece& Physical::piece(Handle handle) const {
  const auto it = pieces_.find(handle);
  VRAM_CHECK(it != pieces_.end());
  return it->second;
}

void Physical::add_mapping(Handle handle) { ++pieces_.at(handle).mappings; }

void Physical::drop_mapping(Handle handle, bool poison) {
  Piece& piece = pieces_.at(handle);
  VRAM_CHECK(piece.mappings > 0);
  if (--piece.mappings > 0) return;
  if (piece.released) {
    drop(handle);
  } else if (poison && piece.backing.exists()) {
    piece.backing.poison();
  }
}

void Physical::drop(Handle handle) {
  const auto it = pieces_.find(handle);
  give_back(it->second.device, it->second.bytes);
  pieces_.erase(it);
}

uint64_t Physical::handle_bytes(uint32_t device) const {
  uint64_t sum = 0;
  for (const auto& [handle, piece] : pieces_) sum += piece.device == device ? piece.bytes : 0;
  return sum;
}

Backing Backing::poisoned(uint64_t bytes) {
  Backing backing;
  backing.bytes_.reset(new std::byte[bytes]);  // not make_unique: it would write zeros first
  backing.size_bytes_ = bytes;
  backing.poison();
  return backing;
}

void Backing::poison(uint64_t offset, uint64_t bytes) {
  std::fill_n(bytes_.get() + offset, bytes, kPoison);
}

Address Segments::take_shared(uint32_t device, uint64_t bytes) {
  Address address = 0;
  for (auto& [start, pages] : pages_) {
    if (!pages.shared || pages.device != device) continue;
    if (!add_tenant(pages, start, bytes, &address)) continue;
    if (pages.backing.exists()) pages.backing.poison(address - start, bytes);
    break;
  }
  return address;
}

const Segments::Pages* Segments::find(Address address, Address* start) const {
  Tenant tenant;
  const Pages* pages = find_inside(address, start, &tenant);
  return pages != nullptr && tenant.address == address ? pages : nullptr;
}

bool Segments::drop(Address address) {
  const auto it = std::prev(pages_.upper_bound(address));
  const size_t erased =
      std::erase_if(it->second.tenants, [&](const Tenant& t) { return t.address == address; });
  VRAM_CHECK(erased == 1);
  if (!it->second.tenants.empty()) return false;
  pages_.erase(it);
  return true;
}

const Segments::Pages* Segments::find_inside(Address address, Address* start,
                                             Tenant* tenant) const {
  const auto next = pages_.upper_bound(address);
  if (next == pages_.begin()) return nullptr;
  const auto& [at, pages] = *std::prev(next);
  for (const Tenant& t : pages.tenants) {
    if (t.address > address || address - t.address >= t.bytes) continue;
    *start = at;
    *tenant = t;
    return &pages;
  }
  return nullptr;
}

uint64_t Segments::page_bytes(uint32_t device) const {
  uint64_t sum = 0;
  for (const auto& [start, pages] : pages_) sum += pages.device == device ? pages.bytes : 0;
  return sum;
}

bool Segments::validate(std::string* why) const {
  const char* wrong = nullptr;
  Address end = 0;
  for (const auto& [start, pages] : pages_) {
    if (start < end) wrong = "two segments' pages overlap";
    end = start + pages.bytes;
    if (pages.tenants.empty()) wrong = "pages without a segment";
    if (!pages.shared && pages.tenants.size() > 1) wrong = "pages of one segment hold another";
    Address tenant_end = start;
    for (const Tenant& t : pages.tenants) {
      if (t.address < tenant_end) wrong = "two segments overlap";
      tenant_end = t.address + t.bytes;
    }
    if (tenant_end > end) wrong = "a segment leaves its pages";
  }
  if (wrong != nullptr && why != nullptr) *why = wrong;
  return wrong == nullptr;
}

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
