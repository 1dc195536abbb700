// The stand-ins. What the driver did is recorded once for each call of the program's.
#include "tap/calls.hpp"

#include "tap/cuda.hpp"
#include "tap/found.hpp"
#include "tap/recorder.hpp"

#include <array>
#include <cstring>

namespace vram::tap {
namespace {

// The driver's own function for a stand-in.
template <auto* kStandIn>
std::atomic<void*> own = nullptr;

// A program that is linked to the driver has not looked for the function.
template <auto* kStandIn, typename... Arguments>
Result call(const char* name, Arguments... arguments) {
  void* function = own<kStandIn>.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = linked_function(name);
    own<kStandIn>.store(function, std::memory_order_relaxed);
  }
  if (function == nullptr) return kNotInitialized;
  return reinterpret_cast<decltype(kStandIn)>(function)(arguments...);
}

thread_local bool is_watching = false;

// One call of the program's. What the driver, or another library that is preloaded, calls to serve
// it is a part of it, and not recorded again.
class Watch {
 public:
  Watch() : is_outermost_(!is_watching), is_on_(is_outermost_ && is_wanted()) {
    is_watching = true;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    if (is_outermost_) is_watching = false;
  }
  [[nodiscard]] bool is_on() const { return is_on_; }

 private:
  bool is_outermost_;
  bool is_on_;
};

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

template <auto* kStandIn, typename... Rest>
Result alloc(const char* name, DevicePointer* address, size_t bytes, Stream stream, Rest... rest) {
  const Watch watch;
  const uint32_t stack = watch.is_on() ? stack_of_caller() : 0;
  const Result result = call<kStandIn>(name, address, bytes, rest...);
  if (watch.is_on()) say_given(result, address, bytes, stream, stack);
  return result;
}

// Said before: afterwards another thread may have the address.
template <auto* kStandIn, typename... Rest>
Result free(const char* name, DevicePointer address, Stream stream, Rest... rest) {
  const Watch watch;
  if (watch.is_on() && address != 0) {
    say(Kind::kFree, address, 0, stream, 0);
    say(Kind::kSegmentFree, address, 0, stream, 0);
  }
  return call<kStandIn>(name, address, rest...);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
extern "C" {
#pragma GCC visibility push(default)

Result cuMemAlloc_v2(DevicePointer* address, size_t bytes) {
  return alloc<&cuMemAlloc_v2>(__func__, address, bytes, nullptr);
}
Result cuMemAllocManaged(DevicePointer* address, size_t bytes, unsigned flags) {
  return alloc<&cuMemAllocManaged>(__func__, address, bytes, nullptr, flags);
}
Result cuMemAllocAsync(DevicePointer* address, size_t bytes, Stream stream) {
  return alloc<&cuMemAllocAsync>(__func__, address, bytes, stream, stream);
}
Result cuMemAllocAsync_ptsz(DevicePointer* address, size_t bytes, Stream stream) {
  return alloc<&cuMemAllocAsync_ptsz>(__func__, address, bytes, stream, stream);
}
Result cuMemAllocFromPoolAsync(DevicePointer* address, size_t bytes, void* pool, Stream stream) {
  return alloc<&cuMemAllocFromPoolAsync>(__func__, address, bytes, stream, pool, stream);
}
Result cuMemAllocFromPoolAsync_ptsz(DevicePointer* address, size_t bytes, void* pool,
                                    Stream stream) {
  return alloc<&cuMemAllocFromPoolAsync_ptsz>(__func__, address, bytes, stream, pool, stream);
}

Result cuMemAllocPitch_v2(DevicePointer* address, size_t* pitch, size_t width, size_t height,
                          unsigned element) {
  const Watch watch;
  const uint32_t stack = watch.is_on() ? stack_of_caller() : 0;
  const Result result = call<&cuMemAllocPitch_v2>(__func__, address, pitch, width, height, element);
  if (watch.is_on()) {
    const size_t row = result == kSuccess ? *pitch : width;
    say_given(result, address, row * height, nullptr, stack);
  }
  return result;
}

Result cuMemFree_v2(DevicePointer address) {
  return free<&cuMemFree_v2>(__func__, address, nullptr);
}
Result cuMemFreeAsync(DevicePointer address, Stream stream) {
  return free<&cuMemFreeAsync>(__func__, address, stream, stream);
}
Result cuMemFreeAsync_ptsz(DevicePointer address, Stream stream) {
  return free<&cuMemFreeAsync_ptsz>(__func__, address, stream, stream);
}

Result cuMemMap(DevicePointer address, size_t bytes, size_t offset, unsigned long long handle,
                unsigned long long flags) {
  const Watch watch;
  const uint32_t stack = watch.is_on() ? stack_of_caller() : 0;
  const Result result = call<&cuMemMap>(__func__, address, bytes, offset, handle, flags);
  if (result != kSuccess || !watch.is_on()) return result;
  say(Kind::kSegmentMap, address, bytes, nullptr, stack);
  say(Kind::kAlloc, address, bytes, nullptr, stack);
  return result;
}
Result cuMemUnmap(DevicePointer address, size_t bytes) {
  const Watch watch;
  if (watch.is_on()) {
    say(Kind::kFree, address, bytes, nullptr, 0);
    say(Kind::kSegmentUnmap, address, bytes, nullptr, 0);
  }
  return call<&cuMemUnmap>(__func__, address, bytes);
}

// The old one and the new: they differ in the last argument.
Result cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  const Result result = call<&cuGetProcAddress>(__func__, name, function, version, flags);
  if (result == kSuccess) *function = watched(name, flags, *function);
  return result;
}
Result cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                           void* status) {
  const Result result =
      call<&cuGetProcAddress_v2>(__func__, name, function, version, flags, status);
  if (result == kSuccess) *function = watched(name, flags, *function);
  return result;
}

#pragma GCC visibility pop

// The stand-ins by names that mean them alone: to a program that is linked without PIE and takes a
// function's address, the exported name means an entry of its own.
#define VRAM_HERE(name) \
  __attribute__((alias(#name), visibility("hidden"))) decltype(name) name##_here
VRAM_HERE(cuMemAlloc_v2);
VRAM_HERE(cuMemAllocPitch_v2);
VRAM_HERE(cuMemAllocManaged);
VRAM_HERE(cuMemAllocAsync);
VRAM_HERE(cuMemAllocAsync_ptsz);
VRAM_HERE(cuMemAllocFromPoolAsync);
VRAM_HERE(cuMemAllocFromPoolAsync_ptsz);
VRAM_HERE(cuMemFree_v2);
VRAM_HERE(cuMemFreeAsync);
VRAM_HERE(cuMemFreeAsync_ptsz);
VRAM_HERE(cuMemMap);
VRAM_HERE(cuMemUnmap);
VRAM_HERE(cuGetProcAddress);
VRAM_HERE(cuGetProcAddress_v2);
#undef VRAM_HERE
}
// NOLINTEND(readability-identifier-naming)

namespace {

template <auto* kFunction>
void* address_of() {
  return reinterpret_cast<void*>(kFunction);
}

template <auto* kStandIn, auto* kHere>
constexpr Call call_of(const char* name, const char* base_name) {
  return {name, base_name, &address_of<kHere>, &own<kStandIn>};
}

// There before any library's initializers, which may call dlsym.
constexpr std::array kCalls = {
    call_of<&cuMemAlloc_v2, &cuMemAlloc_v2_here>("cuMemAlloc_v2", "cuMemAlloc"),
    call_of<&cuMemAllocPitch_v2, &cuMemAllocPitch_v2_here>("cuMemAllocPitch_v2", "cuMemAllocPitch"),
    call_of<&cuMemAllocManaged, &cuMemAllocManaged_here>("cuMemAllocManaged", "cuMemAllocManaged"),
    call_of<&cuMemAllocAsync, &cuMemAllocAsync_here>("cuMemAllocAsync", "cuMemAllocAsync"),
    call_of<&cuMemAllocAsync_ptsz, &cuMemAllocAsync_ptsz_here>("cuMemAllocAsync_ptsz",
                                                               "cuMemAllocAsync"),
    call_of<&cuMemAllocFromPoolAsync, &cuMemAllocFromPoolAsync_here>("cuMemAllocFromPoolAsync",
                                                                     "cuMemAllocFromPoolAsync"),
    call_of<&cuMemAllocFromPoolAsync_ptsz, &cuMemAllocFromPoolAsync_ptsz_here>(
        "cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync"),
    call_of<&cuMemFree_v2, &cuMemFree_v2_here>("cuMemFree_v2", "cuMemFree"),
    call_of<&cuMemFreeAsync, &cuMemFreeAsync_here>("cuMemFreeAsync", "cuMemFreeAsync"),
    call_of<&cuMemFreeAsync_ptsz, &cuMemFreeAsync_ptsz_here>("cuMemFreeAsync_ptsz",
                                                             "cuMemFreeAsync"),
    call_of<&cuMemMap, &cuMemMap_here>("cuMemMap", "cuMemMap"),
    call_of<&cuMemUnmap, &cuMemUnmap_here>("cuMemUnmap", "cuMemUnmap"),
    call_of<&cuGetProcAddress, &cuGetProcAddress_here>("cuGetProcAddress", ""),
    call_of<&cuGetProcAddress_v2, &cuGetProcAddress_v2_here>("cuGetProcAddress_v2",
                                                             "cuGetProcAddress"),
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
