// What the process has of the devices' memory: handles, address space, what is mapped where, and
// segments, by the real driver's rules. Guarded by the machine's mutex.
#pragma once

#include "gpu/cuda/driver_types.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace vram::gpu::cuda::fake {

// The bytes of one device: a sparse file in memory, of which each handle and segment is a piece of
// its own. Pieces never lie where others were, so bytes never return. Guarded by the machine's
// mutex.

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  [[nodiscard]] CUresult allocate(size_t bytes, uint64_t* offset);
  void free(uint64_t offset, size_t bytes);
  // Puts the bytes of a piece at an address; they can't be touched until they are opened.
  [[nodiscard]] CUresult show(CUdeviceptr address, size_t bytes, uint64_t offset) const;

  void set_capacity(size_t bytes) { capacity_bytes_ = bytes; }
  void set_taken(size_t bytes) { taken_bytes_ = bytes; }
  [[nodiscard]] size_t capacity_bytes() const { return capacity_bytes_; }
  [[nodiscard]] size_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] size_t free_bytes() const {
    const size_t busy = used_bytes_ + taken_bytes_;
    return busy < capacity_bytes_ ? capacity_bytes_ - busy : 0;
  }

 private:
  size_t capacity_bytes_;
  size_t taken_bytes_ = 0;
  size_t used_bytes_ = 0;
  uint64_t end_ = 0;
  int file_ = -1;
};

inline constexpr size_t kPageBytes = size_t{2} << 20;

class Memory {
 public:
  Memory(int devices, size_t capacity_bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  [[nodiscard]] CUresult reserve(size_t bytes, CUdeviceptr* address);
  [[nodiscard]] CUresult unreserve(CUdeviceptr address, size_t bytes);
  [[nodiscard]] CUresult create(int device, size_t bytes, CUmemHandle* handle);
  [[nodiscard]] CUresult release(CUmemHandle handle);
  [[nodiscard]] CUresult map(CUdeviceptr address, size_t bytes, CUmemHandle handle);
  [[nodiscard]] CUresult unmap(CUdeviceptr address, size_t bytes);
  // Whether the range is whole mappings that adjoin; the devices whose memory it is, as bits.
  [[nodiscard]] bool is_whole(CUdeviceptr address, size_t bytes, uint64_t* devices) const;
  // For a range that is whole. A device's access is a bit.
  void set_access(CUdeviceptr address, size_t bytes, uint64_t readers, uint64_t writers);
  [[nodiscard]] CUresult alloc_segment(int device, size_t bytes, CUdeviceptr* address);
  // The device whose segment it was, -1 for none.
  [[nodiscard]] int free_segment(CUdeviceptr address);

  [[nodiscard]] DeviceMemory& device(int number) { return devices_[static_cast<size_t>(number)]; }
  [[nodiscard]] bool can_touch(int device, CUdeviceptr address) const;
  [[nodiscard]] bool can_touch_all(int device, CUdeviceptr address, size_t bytes) const;
  [[nodiscard]] size_t live_handles() const;
  [[nodiscard]] size_t mappings() const { return mappings_.size(); }
  [[nodiscard]] size_t reservations() const { return reservations_.size(); }
  [[nodiscard]] size_t segments() const { return segments_.size(); }
  [[nodiscard]] size_t used_bytes() const;

 private:
  struct Piece {
    int device = 0;
    size_t bytes = 0;
    uint64_t offset = 0;
    size_t mapped = 0;  // in so many places
    bool is_released = false;
  };
  struct Mapping {
    size_t bytes = 0;
    CUmemHandle handle = 0;
    uint64_t readers = 0;
    uint64_t writers = 0;
  };
  struct Segment {
    size_t bytes = 0;  // whole pages
    int device = 0;
    uint64_t offset = 0;
  };
  [[nodiscard]] bool is_free(CUdeviceptr address, size_t bytes) const;
  void forget_if_unused(CUmemHandle handle);

  std::vector<DeviceMemory> devices_;
  std::map<CUmemHandle, Piece> pieces_;
  std::map<CUdeviceptr, size_t> reservations_;
  std::map<CUdeviceptr, Mapping> mappings_;
  std::map<CUdeviceptr, Segment> segments_;
  CUmemHandle last_handle_ = 0x5000;
};

}  // namespace vram::gpu::cuda::fake
