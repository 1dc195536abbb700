#include "gpu/sim/physical.hpp"

#include "base/result.hpp"

#include <algorithm>

namespace vram::gpu {

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

}  // namespace vram::gpu
