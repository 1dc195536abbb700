// size: one stand-in for each function of the driver, and the table of them.
// The stand-ins. What the driver did is recorded once for each call of the program's.
#include "tap/calls.hpp"

#include "tap/allocations.hpp"
#include "tap/cuda.hpp"
#include "tap/owners.hpp"
#include "tap/recorder.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <utility>

namespace vram::tap {
namespace {

constexpr size_t kTargets = 8;
constexpr uint64_t kPerThreadStream = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

// What a stand-in calls. The first is for calls by name, each other for a function that was found.
template <auto* kNamed>
std::array<std::atomic<void*>, kTargets> targets{};

// Of the call that begins; nullptr: one by name.
thread_local void* found_target = nullptr;
thread_local const void* found_caller = nullptr;  // who called it
thread_local bool is_watching = false;

// A stand-in's name, and where it is called from if it was called by name.
struct Site {
  const char* name;
  const void* caller;
};
#define VRAM_SITE (Site{__func__, __builtin_return_address(0)})

// One call of the program's. What the driver, or another library that is preloaded, calls to serve
// it is a part of it, and not recorded again.
class Watch {
 public:
  explicit Watch(const Site& site)
      : target_(std::exchange(found_target, nullptr)),
        caller_(target_ != nullptr ? found_caller : site.caller),
        is_outermost_(!is_watching),
        wanted_(is_outermost_ ? what_is_wanted() : Wanted::kNothing) {
    is_watching = true;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    if (is_outermost_) is_watching = false;
  }
  [[nodiscard]] bool is_outermost() const { return is_outermost_; }
  [[nodiscard]] bool is_on() const { return wanted_ == Wanted::kEvents; }
  [[nodiscard]] bool is_summing() const { return wanted_ == Wanted::kSums; }
  [[nodiscard]] void* target() const { return target_; }
  [[nodiscard]] const void* caller() const { return caller_; }

 private:
  void* target_;
  const void* caller_;
  bool is_outermost_;
  Wanted wanted_;
};

// A program that is linked to the driver has not looked for the function.
template <auto* kNamed>
void* target_by_name(const char* name) {
  std::atomic<void*>& target = targets<kNamed>[0];
  void* function = target.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = linked_function(name);
    target.store(function, std::memory_order_relaxed);
  }
  return function;
}

template <auto* kNamed, typename... Arguments>
Result call(void* target, const char* name, Arguments... arguments) {
  void* const function = target != nullptr ? target : target_by_name<kNamed>(name);
  if (function == nullptr) return kNotInitialized;
  return reinterpret_cast<decltype(kNamed)>(function)(arguments...);
}

// The driver gives no part of them to anybody else.
constexpr size_t kUnitBytes = 512;

// Memory that the driver gives as a block is taken from the device and allocated at once.
void write_given(const Allocation& given, Stream stream, uint32_t stack) {
  const size_t whole = (given.bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
  write_event(Kind::kSegmentAlloc, given.device, given.address, whole, stream, stack);
  write_event(Kind::kAlloc, given.device, given.address, given.bytes, stream, stack);
}

// A mapping's memory is taken from the device and allocated with its first mapping.
void write_mapped(const Allocation& mapped) {
  if (mapped.device == kHost) return;
  write_event(Kind::kSegmentMap, mapped.device, mapped.address, mapped.bytes, nullptr,
              mapped.stack);
  write_event(Kind::kAlloc, mapped.device, mapped.address, mapped.bytes, nullptr, mapped.stack);
}

void write_unmapped(const Gone& gone) {
  const Allocation& mapped = gone.allocation;
  if (mapped.device != kHost && mapped.is_counted) {
    write_event(Kind::kFree, mapped.device, mapped.address, mapped.bytes, nullptr, 0);
    write_event(Kind::kSegmentUnmap, mapped.device, mapped.address, mapped.bytes, nullptr, 0);
  }
  if (gone.heir.address != 0) write_mapped(gone.heir);
}

void record_given(Device device, DevicePointer address, size_t bytes, Stream stream,
                  uint32_t stack) {
  const Allocation given{.address = address, .bytes = bytes, .device = device, .stack = stack};
  (void)add_allocation(given);
  if (device != kHost) write_given(given, stream, stack);
}

void add(const Allocation& counted) {
  add_to_owner(counted.owner, counted.device, static_cast<int64_t>(counted.bytes));
}

void subtract(const Gone& gone) {
  const Allocation& counted = gone.allocation;
  if (counted.is_counted)
    add_to_owner(counted.owner, counted.device, -static_cast<int64_t>(counted.bytes));
  add(gone.heir);
}

void add_to_sums(const Allocation& allocation) {
  const Added added = add_allocation(allocation);
  subtract(added.before);
  if (added.is_added && added.is_counted) add(allocation);
}

// Memory that an allocator does not report, or that it reports itself: summed by who called.
template <typename GetDevice>
void sum_up(const Watch& watch, GetDevice device_of, DevicePointer address, size_t bytes,
            Handle handle = 0) {
  if (!watch.is_summing()) return;
  const Device device = device_of();
  if (device == kHost) return;
  add_to_sums({.address = address,
               .bytes = bytes,
               .device = device,
               .owner = owner_of(watch.caller()),
               .handle = handle});
}

uint64_t now_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// Of the current context's device.
template <auto* kNamed, typename... Rest>
Result alloc(const Site& site, DevicePointer* address, size_t bytes, Rest... rest) {
  const Watch watch(site);
  const uint32_t stack = watch.is_on() ? stack_of_caller() : 0;
  const Result result = call<kNamed>(watch.target(), site.name, address, bytes, rest...);
  if (result == kSuccess) sum_up(watch, current_device, *address, bytes);
  if (!watch.is_on()) return result;
  if (result == kOutOfMemory) write_event(Kind::kOom, current_device(), 0, bytes, nullptr, stack);
  if (result == kSuccess) record_given(current_device(), *address, bytes, nullptr, stack);
  return result;
}

// From a pool, on the pool's device.
template <auto* kNamed, typename... Rest>
Result alloc_in(Stream stream, const Site& site, DevicePointer* address, size_t bytes,
                Rest... rest) {
  const Watch watch(site);
  const uint32_t stack = watch.is_on() ? stack_of_caller() : 0;
  const Result result = call<kNamed>(watch.target(), site.name, address, bytes, rest...);
  if (!watch.is_on()) return result;
  if (result == kOutOfMemory)
    write_event(Kind::kOom, device_of_stream(stream), 0, bytes, stream, stack);
  if (result == kSuccess)
    record_given(device_of_block(*address, stream), *address, bytes, stream, stack);
  return result;
}

// Said before: afterwards another thread may have the address.
template <auto* kNamed, typename... Rest>
Result free(const Site& site, DevicePointer address, Stream stream, Rest... rest) {
  const Watch watch(site);
  Gone taken;
  const bool is_known = watch.is_outermost() && take_allocation(address, &taken);
  const Allocation& gone = taken.allocation;
  const bool is_event = is_known && watch.is_on() && gone.device != kHost;
  if (is_known) subtract(taken);
  if (is_event) {
    write_event(Kind::kFree, gone.device, address, 0, stream, 0);
    write_event(Kind::kSegmentFree, gone.device, address, 0, stream, 0);
  }
  const Result result = call<kNamed>(watch.target(), site.name, address, rest...);
  if (result == kSuccess || !is_known) return result;
  // After another failure of the device, for example: the memory is still there.
  add_to_sums(gone);
  if (is_event) write_given(gone, stream, 0);
  return result;
}

template <auto* kNamed, typename... Rest>
Result make_handle(const Site& site, Handle* handle, Rest... rest) {
  const Watch watch(site);
  const Result result = call<kNamed>(watch.target(), site.name, handle, rest...);
  if (result == kSuccess) renew_handle(*handle);
  return result;
}

constexpr size_t kMinCopyBytes = size_t{1} << 20;  // smaller ones are not recorded

template <auto* kNamed, typename... Arguments>
Result copy(const Site& site, bool is_to_device, size_t bytes, Arguments... arguments) {
  const Watch watch(site);
  const bool is_recorded = bytes >= kMinCopyBytes && (watch.is_on() || watch.is_summing());
  const uint64_t began_ns = is_recorded ? now_ns() : 0;
  const Result result = call<kNamed>(watch.target(), site.name, arguments...);
  if (is_recorded && result == kSuccess)
    write_copy(is_to_device, current_device(), bytes, now_ns() - began_ns);
  return result;
}

// cuGetProcAddress, old or new. The driver is asked again for the form that is known here: where a
// later CUDA has another one, that one is not replaced.
template <auto* kNamed, typename... Rest>
Result find_in_driver(const char* own_name, const char* name, void** function, int version,
                      uint64_t flags, Rest... rest) {
  void* const target = std::exchange(found_target, nullptr);
  const auto query = [&](void** found, int requested_version, auto... others) {
    return call<kNamed>(target, own_name, name, found, requested_version, flags, others...);
  };
  const Result result = query(function, version, rest...);
  if (result != kSuccess || *function == nullptr) return result;
  const Call* const known = find_call_by_base(name, version, (flags & kPerThreadStream) != 0);
  if (known == nullptr) return result;
  void* form = nullptr;
  if (known->version != version && query(&form, known->version, Rest{}...) == kSuccess &&
      form != *function) {
    return result;
  }
  *function = known->in_place_of(*function);
  return result;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
extern "C" {
#pragma GCC visibility push(default)

// Not inlined: each has kTargets callers here, and the library is in every process.

[[gnu::noinline]] Result cuMemAlloc_v2(DevicePointer* address, size_t bytes) {
  return alloc<&cuMemAlloc_v2>(VRAM_SITE, address, bytes);
}
[[gnu::noinline]] Result cuMemAllocManaged(DevicePointer* address, size_t bytes, unsigned flags) {
  return alloc<&cuMemAllocManaged>(VRAM_SITE, address, bytes, flags);
}
[[gnu::noinline]] Result cuMemAllocAsync(DevicePointer* address, size_t bytes, Stream stream) {
  return alloc_in<&cuMemAllocAsync>(stream, VRAM_SITE, address, bytes, stream);
}
[[gnu::noinline]] Result cuMemAllocAsync_ptsz(DevicePointer* address, size_t bytes, Stream stream) {
  return alloc_in<&cuMemAllocAsync_ptsz>(stream, VRAM_SITE, address, bytes, stream);
}
[[gnu::noinline]] Result cuMemAllocFromPoolAsync(DevicePointer* address, size_t bytes, void* pool,
                                                 Stream stream) {
  return alloc_in<&cuMemAllocFromPoolAsync>(stream, VRAM_SITE, address, bytes, pool, stream);
}
[[gnu::noinline]] Result cuMemAllocFromPoolAsync_ptsz(DevicePointer* address, size_t bytes,
                                                      void* pool, Stream stream) {
  return alloc_in<&cuMemAllocFromPoolAsync_ptsz>(stream, VRAM_SITE, address, bytes, pool, stream);
}

[[gnu::noinline]] Result cuMemAllocPitch_v2(DevicePointer* address, size_t* pitch, size_t width,
                                            size_t height, unsigned element) {
  const Watch watch(VRAM_SITE);
  const uint32_t stack = watch.is_on() ? stack_of_caller() : 0;
  const Result result =
      call<&cuMemAllocPitch_v2>(watch.target(), __func__, address, pitch, width, height, element);
  if (result == kSuccess) sum_up(watch, current_device, *address, *pitch * height);
  if (!watch.is_on()) return result;
  if (result == kOutOfMemory)
    write_event(Kind::kOom, current_device(), 0, width * height, nullptr, stack);
  if (result == kSuccess) record_given(current_device(), *address, *pitch * height, nullptr, stack);
  return result;
}

[[gnu::noinline]] Result cuMemFree_v2(DevicePointer address) {
  return free<&cuMemFree_v2>(VRAM_SITE, address, nullptr);
}
[[gnu::noinline]] Result cuMemFreeAsync(DevicePointer address, Stream stream) {
  return free<&cuMemFreeAsync>(VRAM_SITE, address, stream, stream);
}
[[gnu::noinline]] Result cuMemFreeAsync_ptsz(DevicePointer address, Stream stream) {
  return free<&cuMemFreeAsync_ptsz>(VRAM_SITE, address, stream, stream);
}

[[gnu::noinline]] Result cuMemMap(DevicePointer address, size_t bytes, size_t offset, Handle handle,
                                  unsigned long long flags) {
  const Watch watch(VRAM_SITE);
  const uint32_t stack = watch.is_on() ? stack_of_caller() : 0;
  const Result result =
      call<&cuMemMap>(watch.target(), __func__, address, bytes, offset, handle, flags);
  if (result != kSuccess) return result;
  sum_up(watch, [&] { return device_of_handle(handle, kHost); }, address, bytes, handle);
  if (!watch.is_on()) return result;
  const Allocation mapped{.address = address,
                          .bytes = bytes,
                          .device = device_of_handle(handle, current_device()),
                          .stack = stack,
                          .handle = handle};
  const Added added = add_allocation(mapped);
  if (added.before.heir.address != 0) write_mapped(added.before.heir);
  if (added.is_counted) write_mapped(mapped);
  return result;
}

// Of whole mappings, one or several. Until it returns, the program maps nothing else there.
[[gnu::noinline]] Result cuMemUnmap(DevicePointer address, size_t bytes) {
  const Watch watch(VRAM_SITE);
  const Result result = call<&cuMemUnmap>(watch.target(), __func__, address, bytes);
  if (result != kSuccess) return result;
  const DevicePointer end = address + bytes;
  Gone gone;
  for (DevicePointer at = address; watch.is_outermost() && take_allocation_in(at, end, &gone);
       at = gone.allocation.address + gone.allocation.bytes) {
    subtract(gone);
    if (watch.is_on()) write_unmapped(gone);
  }
  return result;
}

[[gnu::noinline]] Result cuMemCreate(Handle* handle, size_t bytes,
                                     const MemoryProperties* properties, unsigned long long flags) {
  return make_handle<&cuMemCreate>(VRAM_SITE, handle, bytes, properties, flags);
}
[[gnu::noinline]] Result cuMemImportFromShareableHandle(Handle* handle, void* shared, int type) {
  return make_handle<&cuMemImportFromShareableHandle>(VRAM_SITE, handle, shared, type);
}
[[gnu::noinline]] Result cuMulticastCreate(Handle* handle, const void* properties) {
  return make_handle<&cuMulticastCreate>(VRAM_SITE, handle, properties);
}

[[gnu::noinline]] Result cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
  return copy<&cuMemcpyHtoD_v2>(VRAM_SITE, true, bytes, to, from, bytes);
}
[[gnu::noinline]] Result cuMemcpyHtoD_v2_ptds(DevicePointer to, const void* from, size_t bytes) {
  return copy<&cuMemcpyHtoD_v2_ptds>(VRAM_SITE, true, bytes, to, from, bytes);
}
[[gnu::noinline]] Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes,
                                              Stream stream) {
  return copy<&cuMemcpyHtoDAsync_v2>(VRAM_SITE, true, bytes, to, from, bytes, stream);
}
[[gnu::noinline]] Result cuMemcpyHtoDAsync_v2_ptsz(DevicePointer to, const void* from, size_t bytes,
                                                   Stream stream) {
  return copy<&cuMemcpyHtoDAsync_v2_ptsz>(VRAM_SITE, true, bytes, to, from, bytes, stream);
}
[[gnu::noinline]] Result cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) {
  return copy<&cuMemcpyDtoH_v2>(VRAM_SITE, false, bytes, to, from, bytes);
}
[[gnu::noinline]] Result cuMemcpyDtoH_v2_ptds(void* to, DevicePointer from, size_t bytes) {
  return copy<&cuMemcpyDtoH_v2_ptds>(VRAM_SITE, false, bytes, to, from, bytes);
}
[[gnu::noinline]] Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes,
                                              Stream stream) {
  return copy<&cuMemcpyDtoHAsync_v2>(VRAM_SITE, false, bytes, to, from, bytes, stream);
}
[[gnu::noinline]] Result cuMemcpyDtoHAsync_v2_ptsz(void* to, DevicePointer from, size_t bytes,
                                                   Stream stream) {
  return copy<&cuMemcpyDtoHAsync_v2_ptsz>(VRAM_SITE, false, bytes, to, from, bytes, stream);
}

// Up to CUDA 11 and from CUDA 12 on: only the new one has a status.
[[gnu::noinline]] Result cuGetProcAddress(const char* name, void** function, int version,
                                          uint64_t flags) {
  return find_in_driver<&cuGetProcAddress>(__func__, name, function, version, flags);
}
[[gnu::noinline]] Result cuGetProcAddress_v2(const char* name, void** function, int version,
                                             uint64_t flags, void* status) {
  return find_in_driver<&cuGetProcAddress_v2>(__func__, name, function, version, flags, status);
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
VRAM_HERE(cuMemCreate);
VRAM_HERE(cuMemImportFromShareableHandle);
VRAM_HERE(cuMulticastCreate);
VRAM_HERE(cuMemcpyHtoD_v2);
VRAM_HERE(cuMemcpyHtoD_v2_ptds);
VRAM_HERE(cuMemcpyHtoDAsync_v2);
VRAM_HERE(cuMemcpyHtoDAsync_v2_ptsz);
VRAM_HERE(cuMemcpyDtoH_v2);
VRAM_HERE(cuMemcpyDtoH_v2_ptds);
VRAM_HERE(cuMemcpyDtoHAsync_v2);
VRAM_HERE(cuMemcpyDtoHAsync_v2_ptsz);
VRAM_HERE(cuGetProcAddress);
VRAM_HERE(cuGetProcAddress_v2);
#undef VRAM_HERE
}
// NOLINTEND(readability-identifier-naming)

namespace {

// kHere is kNamed under the name that no other library can take.
template <auto* kNamed, auto* kHere>
struct StandIns;

template <typename... Arguments, Result (*kNamed)(Arguments...), Result (*kHere)(Arguments...)>
struct StandIns<kNamed, kHere> {
  static void* by_name() { return reinterpret_cast<void*>(kHere); }

  template <size_t kTarget>
  static Result of_target(Arguments... arguments) {
    found_target = targets<kNamed>[kTarget].load(std::memory_order_relaxed);
    found_caller = __builtin_return_address(0);
    return kHere(arguments...);
  }

  static void* in_place_of(void* function) {
    return find(function, std::make_index_sequence<kTargets>());
  }

 private:
  template <size_t... kEach>
  static void* find(void* function, std::index_sequence<kEach...>) {
    void* const all[] = {(kEach == 0 ? by_name() : reinterpret_cast<void*>(&of_target<kEach>))...};
    for (void* const stand_in : all) {
      if (stand_in == function) return function;
    }
    for (size_t i = 1; i < kTargets; ++i) {
      void* before = nullptr;
      if (targets<kNamed>[i].compare_exchange_strong(before, function) || before == function)
        return all[i];
    }
    return function;
  }
};

template <auto* kNamed, auto* kHere>
constexpr Call call_of(const char* name, const char* base_name, int version) {
  return {name, base_name, version, &StandIns<kNamed, kHere>::by_name,
          &StandIns<kNamed, kHere>::in_place_of};
}

// There before any library's initializers, which may call dlsym.
constexpr std::array kCalls = {
    call_of<&cuMemAlloc_v2, &cuMemAlloc_v2_here>("cuMemAlloc_v2", "cuMemAlloc", 3020),
    call_of<&cuMemAllocPitch_v2, &cuMemAllocPitch_v2_here>("cuMemAllocPitch_v2", "cuMemAllocPitch",
                                                           3020),
    call_of<&cuMemAllocManaged, &cuMemAllocManaged_here>("cuMemAllocManaged", "cuMemAllocManaged",
                                                         6000),
    call_of<&cuMemAllocAsync, &cuMemAllocAsync_here>("cuMemAllocAsync", "cuMemAllocAsync", 11020),
    call_of<&cuMemAllocAsync_ptsz, &cuMemAllocAsync_ptsz_here>("cuMemAllocAsync_ptsz",
                                                               "cuMemAllocAsync", 11020),
    call_of<&cuMemAllocFromPoolAsync, &cuMemAllocFromPoolAsync_here>(
        "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", 11020),
    call_of<&cuMemAllocFromPoolAsync_ptsz, &cuMemAllocFromPoolAsync_ptsz_here>(
        "cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync", 11020),
    call_of<&cuMemFree_v2, &cuMemFree_v2_here>("cuMemFree_v2", "cuMemFree", 3020),
    call_of<&cuMemFreeAsync, &cuMemFreeAsync_here>("cuMemFreeAsync", "cuMemFreeAsync", 11020),
    call_of<&cuMemFreeAsync_ptsz, &cuMemFreeAsync_ptsz_here>("cuMemFreeAsync_ptsz",
                                                             "cuMemFreeAsync", 11020),
    call_of<&cuMemMap, &cuMemMap_here>("cuMemMap", "cuMemMap", 10020),
    call_of<&cuMemUnmap, &cuMemUnmap_here>("cuMemUnmap", "cuMemUnmap", 10020),
    call_of<&cuMemCreate, &cuMemCreate_here>("cuMemCreate", "cuMemCreate", 10020),
    call_of<&cuMemImportFromShareableHandle, &cuMemImportFromShareableHandle_here>(
        "cuMemImportFromShareableHandle", "cuMemImportFromShareableHandle", 10020),
    call_of<&cuMulticastCreate, &cuMulticastCreate_here>("cuMulticastCreate", "cuMulticastCreate",
                                                         12010),
    call_of<&cuMemcpyHtoD_v2, &cuMemcpyHtoD_v2_here>("cuMemcpyHtoD_v2", "cuMemcpyHtoD", 3020),
    call_of<&cuMemcpyHtoD_v2_ptds, &cuMemcpyHtoD_v2_ptds_here>("cuMemcpyHtoD_v2_ptds",
                                                               "cuMemcpyHtoD", 7000),
    call_of<&cuMemcpyHtoDAsync_v2, &cuMemcpyHtoDAsync_v2_here>("cuMemcpyHtoDAsync_v2",
                                                               "cuMemcpyHtoDAsync", 3020),
    call_of<&cuMemcpyHtoDAsync_v2_ptsz, &cuMemcpyHtoDAsync_v2_ptsz_here>(
        "cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync", 7000),
    call_of<&cuMemcpyDtoH_v2, &cuMemcpyDtoH_v2_here>("cuMemcpyDtoH_v2", "cuMemcpyDtoH", 3020),
    call_of<&cuMemcpyDtoH_v2_ptds, &cuMemcpyDtoH_v2_ptds_here>("cuMemcpyDtoH_v2_ptds",
                                                               "cuMemcpyDtoH", 7000),
    call_of<&cuMemcpyDtoHAsync_v2, &cuMemcpyDtoHAsync_v2_here>("cuMemcpyDtoHAsync_v2",
                                                               "cuMemcpyDtoHAsync", 3020),
    call_of<&cuMemcpyDtoHAsync_v2_ptsz, &cuMemcpyDtoHAsync_v2_ptsz_here>(
        "cuMemcpyDtoHAsync_v2_ptsz", "cuMemcpyDtoHAsync", 7000),
    call_of<&cuGetProcAddress, &cuGetProcAddress_here>("cuGetProcAddress", "cuGetProcAddress",
                                                       11030),
    call_of<&cuGetProcAddress_v2, &cuGetProcAddress_v2_here>("cuGetProcAddress_v2",
                                                             "cuGetProcAddress", 12000),
};

bool ends_per_thread(const char* name) {
  const size_t length = std::strlen(name);
  if (length <= 5) return false;
  const char* const end = name + length - 5;
  return std::strcmp(end, "_ptsz") == 0 || std::strcmp(end, "_ptds") == 0;
}

}  // namespace

const Call* find_call(const char* name) {
  for (const Call& call : kCalls) {
    if (std::strcmp(call.name, name) == 0) return &call;
  }
  return nullptr;
}

// Later forms come later in the table.
const Call* find_call_by_base(const char* base_name, int version, bool is_per_thread) {
  const Call* plain = nullptr;
  const Call* per_thread = nullptr;
  for (const Call& call : kCalls) {
    if (std::strcmp(call.base_name, base_name) != 0 || call.version > version) continue;
    (ends_per_thread(call.name) ? per_thread : plain) = &call;
  }
  return is_per_thread && per_thread != nullptr ? per_thread : plain;
}

}  // namespace vram::tap
