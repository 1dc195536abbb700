#include "memory.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace vram::gpu::cuda::fake {
namespace {

bool is_whole_pages(size_t bytes) { return bytes != 0 && bytes % kPageBytes == 0; }
size_t whole_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

// NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are numbers
void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// Address space that no access can touch, at the address or, for 0, anywhere; 0 if there is none.
CUdeviceptr nothing_at(CUdeviceptr address, size_t bytes) {
  const int fixed = address == 0 ? 0 : MAP_FIXED;
  void* const at = mmap(pointer(address), bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  return at == MAP_FAILED ? 0 : reinterpret_cast<CUdeviceptr>(at);
}

// The same, where pages begin: asks for a page more and gives the ends back.
CUdeviceptr nothing_anywhere(size_t bytes) {
  const CUdeviceptr got = nothing_at(0, bytes + kPageBytes);
  if (got == 0) return 0;
  const CUdeviceptr start = whole_pages(got);
  const size_t behind = got + kPageBytes - start;
  if (start != got) munmap(pointer(got), start - got);
  if (behind != 0) munmap(pointer(start + bytes), behind);
  return start;
}

}  // namespace

Memory::Memory(int devices, size_t capacity_bytes) {
  for (int i = 0; i < devices; ++i) devices_.emplace_back(capacity_bytes);
}

Memory::~Memory() {
  for (const auto& [address, bytes] : reservations_) munmap(pointer(address), bytes);
  for (const auto& [address, segment] : segments_) munmap(pointer(address), segment.bytes);
}

CUresult Memory::reserve(size_t bytes, CUdeviceptr* address) {
  if (!is_whole_pages(bytes)) return kErrorInvalidValue;
  const CUdeviceptr start = nothing_anywhere(bytes);
  if (start == 0) return kErrorOutOfMemory;
  reservations_[start] = bytes;
  *address = start;
  return kSuccess;
}

CUresult Memory::unreserve(CUdeviceptr address, size_t bytes) {
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes || !is_free(address, bytes)) {
    return kErrorInvalidValue;
  }
  munmap(pointer(address), bytes);
  reservations_.erase(found);
  return kSuccess;
}

CUresult Memory::create(int device, size_t bytes, CUmemHandle* handle) {
  if (!is_whole_pages(bytes)) return kErrorInvalidValue;
  Piece piece{.device = device, .bytes = bytes};
  const CUresult result = this->device(device).allocate(bytes, &piece.offset);
  if (result != kSuccess) return result;
  *handle = last_handle_ += 16;
  pieces_[*handle] = piece;
  return kSuccess;
}

CUresult Memory::release(CUmemHandle handle) {
  const auto found = pieces_.find(handle);
  if (found == pieces_.end() || found->second.is_released) return kErrorInvalidValue;
  found->second.is_released = true;
  forget_if_unused(handle);
  return kSuccess;
}

void Memory::forget_if_unused(CUmemHandle handle) {
  const Piece& piece = pieces_.at(handle);
  if (!piece.is_released || piece.mapped != 0) return;
  device(piece.device).free(piece.offset, piece.bytes);
  pieces_.erase(handle);
}

// No mapping overlaps the range.
bool Memory::is_free(CUdeviceptr address, size_t bytes) const {
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return false;
  if (next == mappings_.begin()) return true;
  const auto before = std::prev(next);
  return before->first + before->second.bytes <= address;
}

CUresult Memory::map(CUdeviceptr address, size_t bytes, CUmemHandle handle) {
  const auto piece = pieces_.find(handle);
  if (piece == pieces_.end() || piece->second.is_released || piece->second.bytes != bytes) {
    return kErrorInvalidValue;
  }
  auto range = reservations_.upper_bound(address);
  if (range == reservations_.begin()) return kErrorInvalidValue;
  --range;
  if (address % kPageBytes != 0 || address + bytes > range->first + range->second ||
      !is_free(address, bytes)) {
    return kErrorInvalidValue;
  }
  const CUresult result = device(piece->second.device).show(address, bytes, piece->second.offset);
  if (result != kSuccess) return result;
  mappings_[address] = {.bytes = bytes, .handle = handle};
  ++piece->second.mapped;
  return kSuccess;
}

bool Memory::is_whole(CUdeviceptr address, size_t bytes, uint64_t* devices) const {
  if (bytes == 0) return false;
  const CUdeviceptr end = address + bytes;
  CUdeviceptr at = address;
  *devices = 0;
  while (at < end) {
    const auto mapping = mappings_.find(at);
    if (mapping == mappings_.end()) return false;
    *devices |= uint64_t{1} << pieces_.at(mapping->second.handle).device;
    at += mapping->second.bytes;
  }
  return at == end;
}

CUresult Memory::unmap(CUdeviceptr address, size_t bytes) {
  uint64_t devices = 0;
  if (!is_whole(address, bytes, &devices)) return kErrorInvalidValue;
  if (nothing_at(address, bytes) == 0) return kErrorOutOfMemory;
  for (CUdeviceptr at = address; at < address + bytes;) {
    const Mapping mapping = mappings_.at(at);
    mappings_.erase(at);
    --pieces_.at(mapping.handle).mapped;
    forget_if_unused(mapping.handle);
    at += mapping.bytes;
  }
  return kSuccess;
}

void Memory::set_access(CUdeviceptr address, size_t bytes, uint64_t readers, uint64_t writers) {
  for (CUdeviceptr at = address; at < address + bytes;) {
    Mapping& mapping = mappings_.at(at);
    mapping.readers |= readers;
    mapping.writers |= writers;
    const int write = mapping.writers != 0 ? PROT_WRITE : 0;
    mprotect(pointer(at), mapping.bytes, (mapping.readers != 0 ? PROT_READ : 0) | write);
    at += mapping.bytes;
  }
}

CUresult Memory::alloc_segment(int device, size_t bytes, CUdeviceptr* address) {
  if (bytes == 0) return kErrorInvalidValue;
  if (bytes > this->device(device).free_bytes()) return kErrorOutOfMemory;
  Segment segment{.bytes = whole_pages(bytes), .device = device};
  CUresult result = this->device(device).allocate(segment.bytes, &segment.offset);
  if (result != kSuccess) return result;
  const CUdeviceptr at = nothing_anywhere(segment.bytes);
  result =
      at == 0 ? kErrorOutOfMemory : this->device(device).show(at, segment.bytes, segment.offset);
  if (result != kSuccess) {
    this->device(device).free(segment.offset, segment.bytes);
    return result;
  }
  mprotect(pointer(at), segment.bytes, PROT_READ | PROT_WRITE);
  segments_[at] = segment;
  *address = at;
  return kSuccess;
}

int Memory::free_segment(CUdeviceptr address) {
  const auto found = segments_.find(address);
  if (found == segments_.end()) return -1;
  const Segment segment = found->second;
  munmap(pointer(address), segment.bytes);
  device(segment.device).free(segment.offset, segment.bytes);
  segments_.erase(found);
  return segment.device;
}

bool Memory::can_touch(int device, CUdeviceptr address) const {
  if (const auto segment = segments_.upper_bound(address); segment != segments_.begin()) {
    const auto& [start, found] = *std::prev(segment);
    if (address < start + found.bytes) return found.device == device;
  }
  const auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return false;
  const auto& [start, found] = *std::prev(mapping);
  return address < start + found.bytes && (found.writers >> device & 1) != 0;
}

bool Memory::can_touch_all(int device, CUdeviceptr address, size_t bytes) const {
  if (bytes == 0) return true;
  // What is touchable is so by whole pages.
  for (CUdeviceptr at = address; at < address + bytes; at += kPageBytes) {
    if (!can_touch(device, at)) return false;
  }
  return can_touch(device, address + bytes - 1);
}

size_t Memory::live_handles() const {
  return static_cast<size_t>(std::count_if(
      pieces_.begin(), pieces_.end(), [](const auto& entry) { return !entry.second.is_released; }));
}

size_t Memory::used_bytes() const {
  size_t bytes = 0;
  for (const DeviceMemory& device : devices_) bytes += device.used_bytes();
  return bytes;
}

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
