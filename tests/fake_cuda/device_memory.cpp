#include "device_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace vram::gpu::cuda::fake {

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : capacity_bytes_(other.capacity_bytes_),
      taken_bytes_(other.taken_bytes_),
      used_bytes_(other.used_bytes_),
      end_(other.end_),
      file_(std::exchange(other.file_, -1)) {}

DeviceMemory::~DeviceMemory() {
  if (file_ >= 0) close(file_);
}

CUresult DeviceMemory::allocate(size_t bytes, uint64_t* offset) {
  if (bytes > free_bytes()) return kErrorOutOfMemory;
  if (file_ < 0) file_ = memfd_create("fake_cuda", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(end_ + bytes)) != 0) {
    return kErrorOutOfMemory;
  }
  *offset = end_;
  end_ += bytes;
  used_bytes_ += bytes;
  return kSuccess;
}

void DeviceMemory::free(uint64_t offset, size_t bytes) {
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  used_bytes_ -= bytes;
}

CUresult DeviceMemory::show(CUdeviceptr address, size_t bytes, uint64_t offset) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are numbers
  void* const at = reinterpret_cast<void*>(address);
  void* const shown =
      mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file_, static_cast<off_t>(offset));
  return shown == MAP_FAILED ? kErrorOutOfMemory : kSuccess;
}

}  // namespace vram::gpu::cuda::fake
