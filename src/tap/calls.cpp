#include "tap/calls.hpp"

#include "tap/cuda.hpp"
#include "tap/recorder.hpp"

#include <array>
#include <cstring>

namespace vram::tap {

Result get_proc_address(const char* name, void** function, int version, uint64_t flags);
Result get_proc_address_v2(const char* name, void** function, int version, uint64_t flags,
                           void* status);
extern void* own_get_proc_address;
extern void* own_get_proc_address_v2;

namespace {

// The driver's own functions.
struct Own {
  void* alloc = nullptr;
  void* alloc_pitch = nullptr;
  void* alloc_managed = nullptr;
  void* alloc_async = nullptr;
  void* alloc_async_ptsz = nullptr;
  void* alloc_from_pool = nullptr;
  void* alloc_from_pool_ptsz = nullptr;
  void* free = nullptr;
  void* free_async = nullptr;
  void* free_async_ptsz = nullptr;
  void* map = nullptr;
  void* unmap = nullptr;
};
Own own;  // NOLINT: filled as the program looks for them

template <typename... Arguments>
Result call(void* function, Arguments... arguments) {
  return reinterpret_cast<Result (*)(Arguments...)>(function)(arguments...);
}

// The driver gives no part of them to anybody else.
constexpr size_t kUnitBytes = 512;

// Memory that the driver gives as a block is taken from the device and allocated at once.
void say_given(Result result, const DevicePointer* address, size_t bytes, Stream stream,
               uint32_t stack) {
  if (result == kOutOfMemory) say(Kind::kOom, 0, bytes, stream, stack);
  if (result != kSuccess) return;
  const size_t whole = (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
  say(Kind::kSegmentAlloc, *address, whole, stream, stack);
  say(Kind::kAlloc, *address, bytes, stream, stack);
}

void say_taken(DevicePointer address, Stream stream) {
  say(Kind::kFree, address, 0, stream, 0);
  say(Kind::kSegmentFree, address, 0, stream, 0);
}

template <typename... Rest>
Result alloc_by(void* function, DevicePointer* address, size_t bytes, Stream stream, Rest... rest) {
  if (!is_wanted()) return call(function, address, bytes, rest...);
  const uint32_t stack = stack_of_caller();
  const Result result = call(function, address, bytes, rest...);
  say_given(result, address, bytes, stream, stack);
  return result;
}

Result alloc(DevicePointer* address, size_t bytes) {
  return alloc_by(own.alloc, address, bytes, nullptr);
}
Result alloc_managed(DevicePointer* address, size_t bytes, unsigned flags) {
  return alloc_by(own.alloc_managed, address, bytes, nullptr, flags);
}
Result alloc_async(DevicePointer* address, size_t bytes, Stream stream) {
  return alloc_by(own.alloc_async, address, bytes, stream, stream);
}
Result alloc_async_ptsz(DevicePointer* address, size_t bytes, Stream stream) {
  return alloc_by(own.alloc_async_ptsz, address, bytes, stream, stream);
}
Result alloc_from_pool(DevicePointer* address, size_t bytes, void* pool, Stream stream) {
  return alloc_by(own.alloc_from_pool, address, bytes, stream, pool, stream);
}
Result alloc_from_pool_ptsz(DevicePointer* address, size_t bytes, void* pool, Stream stream) {
  return alloc_by(own.alloc_from_pool_ptsz, address, bytes, stream, pool, stream);
}

Result alloc_pitch(DevicePointer* address, size_t* pitch, size_t width, size_t height,
                   unsigned element) {
  const bool wanted = is_wanted();
  const uint32_t stack = wanted ? stack_of_caller() : 0;
  const Result result = call(own.alloc_pitch, address, pitch, width, height, element);
  if (wanted) {
    const size_t row = result == kSuccess ? *pitch : width;
    say_given(result, address, row * height, nullptr, stack);
  }
  return result;
}

// Said before: afterwards another thread may have the address.
Result free(DevicePointer address) {
  if (is_wanted() && address != 0) say_taken(address, nullptr);
  return call(own.free, address);
}
Result free_async(DevicePointer address, Stream stream) {
  if (is_wanted() && address != 0) say_taken(address, stream);
  return call(own.free_async, address, stream);
}
Result free_async_ptsz(DevicePointer address, Stream stream) {
  if (is_wanted() && address != 0) say_taken(address, stream);
  return call(own.free_async_ptsz, address, stream);
}

Result map(DevicePointer address, size_t bytes, size_t offset, unsigned long long handle,
           unsigned long long flags) {
  if (!is_wanted()) return call(own.map, address, bytes, offset, handle, flags);
  const uint32_t stack = stack_of_caller();
  const Result result = call(own.map, address, bytes, offset, handle, flags);
  if (result != kSuccess) return result;
  say(Kind::kSegmentMap, address, bytes, nullptr, stack);
  say(Kind::kAlloc, address, bytes, nullptr, stack);
  return result;
}
Result unmap(DevicePointer address, size_t bytes) {
  if (is_wanted()) {
    say(Kind::kFree, address, bytes, nullptr, 0);
    say(Kind::kSegmentUnmap, address, bytes, nullptr, 0);
  }
  return call(own.unmap, address, bytes);
}

template <typename Function>
void* as_pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

const std::array kCalls = {
    Call{"cuMemAlloc_v2", "cuMemAlloc", as_pointer(&alloc), &own.alloc},
    Call{"cuMemAllocPitch_v2", "cuMemAllocPitch", as_pointer(&alloc_pitch), &own.alloc_pitch},
    Call{"cuMemAllocManaged", "cuMemAllocManaged", as_pointer(&alloc_managed), &own.alloc_managed},
    Call{"cuMemAllocAsync", "cuMemAllocAsync", as_pointer(&alloc_async), &own.alloc_async},
    Call{"cuMemAllocAsync_ptsz", "cuMemAllocAsync", as_pointer(&alloc_async_ptsz),
         &own.alloc_async_ptsz},
    Call{"cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", as_pointer(&alloc_from_pool),
         &own.alloc_from_pool},
    Call{"cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync",
         as_pointer(&alloc_from_pool_ptsz), &own.alloc_from_pool_ptsz},
    Call{"cuMemFree_v2", "cuMemFree", as_pointer(&free), &own.free},
    Call{"cuMemFreeAsync", "cuMemFreeAsync", as_pointer(&free_async), &own.free_async},
    Call{"cuMemFreeAsync_ptsz", "cuMemFreeAsync", as_pointer(&free_async_ptsz),
         &own.free_async_ptsz},
    Call{"cuMemMap", "cuMemMap", as_pointer(&map), &own.map},
    Call{"cuMemUnmap", "cuMemUnmap", as_pointer(&unmap), &own.unmap},
    Call{"cuGetProcAddress", "", as_pointer(&get_proc_address), &own_get_proc_address},
    Call{"cuGetProcAddress_v2", "cuGetProcAddress", as_pointer(&get_proc_address_v2),
         &own_get_proc_address_v2},
};

bool ends_per_thread(const char* name) {
  const size_t length = std::strlen(name);
  return length > 5 && std::strcmp(name + length - 5, "_ptsz") == 0;
}

}  // namespace

const Call* find_call(const char* name) {
  for (const Call& call : kCalls) {
    if (std::strcmp(call.name, name) == 0) return &call;
  }
  return nullptr;
}

const Call* find_call_by_base(const char* base_name, bool is_per_thread) {
  const Call* plain = nullptr;
  for (const Call& call : kCalls) {
    if (std::strcmp(call.base_name, base_name) != 0) continue;
    if (ends_per_thread(call.name)) {
      if (is_per_thread) return &call;
    } else {
      plain = &call;
    }
  }
  return plain;
}

}  // namespace vram::tap
