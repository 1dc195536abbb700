// The bytes of one device: a sparse file in memory, of which each handle and segment is a piece of
// its own. Pieces never lie where others were, so bytes never return. Guarded by the machine's
// mutex.
#pragma once

#include "gpu/cuda/driver_types.hpp"

#include <cstddef>
#include <cstdint>

namespace vram::gpu::cuda::fake {

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

}  // namespace vram::gpu::cuda::fake
