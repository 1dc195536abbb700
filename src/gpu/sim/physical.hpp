// Physical: whose memory it is. Counts what is allocated on each device, against its capacity and
// its limit, and keeps the handles (pieces without an address). A released handle lives on while it
// is mapped. Not thread-safe.
#pragma once

#include "gpu/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
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

}  // namespace vram::gpu
