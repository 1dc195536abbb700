// A table with open addressing and linear probing, at most half full. No C++ run-time library is
// there for a better one.
#include "tap/allocations.hpp"

#include "tap/cuda.hpp"

#include <atomic>
#include <cstdlib>
#include <pthread.h>
#include <utility>

namespace vram::tap {
namespace {

constexpr size_t kFirstEntries = 256;
// Mappings begin at multiples of it on every GPU.
constexpr size_t kMinMappingBytes = size_t{64} << 10;

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_once_t watches_forks = PTHREAD_ONCE_INIT;
Allocation* entries = nullptr;  // address 0: free
size_t capacity = 0;            // a power of two
size_t count = 0;

void take_lock() { (void)pthread_mutex_lock(&lock); }
void give_lock() { (void)pthread_mutex_unlock(&lock); }
// A child finds the table whole.
void watch_forks() { (void)pthread_atfork(take_lock, give_lock, give_lock); }

class Locked {
 public:
  Locked() { take_lock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { give_lock(); }
};

size_t home_of(DevicePointer address) {
  return (address >> 9) * 0x9e3779b97f4a7c15u >> 20 & (capacity - 1);
}

// Where the address is, or would be.
size_t place_of(DevicePointer address) {
  size_t place = home_of(address);
  while (entries[place].address != 0 && entries[place].address != address)
    place = (place + 1) & (capacity - 1);
  return place;
}

bool grow() {
  Allocation* const old = entries;
  const size_t old_capacity = capacity;
  const size_t wanted = capacity == 0 ? kFirstEntries : capacity * 2;
  auto* const made = static_cast<Allocation*>(std::calloc(wanted, sizeof(Allocation)));
  if (made == nullptr) return false;
  entries = made;
  capacity = wanted;
  for (size_t i = 0; i < old_capacity; ++i) {
    if (old[i].address != 0) entries[place_of(old[i].address)] = old[i];
  }
  std::free(old);
  return true;
}

// Those behind that are not at home move up, so that no search ends too early.
void erase(size_t place) {
  --count;
  size_t hole = place;
  for (size_t next = (hole + 1) & (capacity - 1); entries[next].address != 0;
       next = (next + 1) & (capacity - 1)) {
    const size_t from_home = (next - home_of(entries[next].address)) & (capacity - 1);
    const size_t from_hole = (next - hole) & (capacity - 1);
    if (from_home < from_hole) continue;
    entries[hole] = entries[next];
    hole = next;
  }
  entries[hole] = {};
}

bool take_locked(DevicePointer address, Allocation* taken) {
  if (capacity == 0 || address == 0) return false;
  const size_t place = place_of(address);
  if (entries[place].address == 0) return false;
  *taken = entries[place];
  erase(place);
  return true;
}

}  // namespace

Added add_allocation(const Allocation& allocation) {
  (void)pthread_once(&watches_forks, watch_forks);
  const Locked locked;
  if (allocation.address == 0) return {};
  if ((count + 1) * 2 > capacity && !grow()) return {};
  Allocation& entry = entries[place_of(allocation.address)];
  if (entry.address == 0) ++count;
  return {true, std::exchange(entry, allocation)};
}

bool take_allocation(DevicePointer address, Allocation* taken) {
  const Locked locked;
  return take_locked(address, taken);
}

bool take_allocation_in(DevicePointer begin, DevicePointer end, Allocation* taken) {
  const Locked locked;
  for (DevicePointer at = begin; at < end; at += kMinMappingBytes) {
    if (count == 0) return false;
    if (take_locked(at, taken)) return true;
  }
  return false;
}

namespace {

// Looked for until the driver is there.
template <typename Function>
class LazyFunction {
 public:
  explicit constexpr LazyFunction(const char* name) : name_(name) {}
  Function get() {
    void* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = driver_function(name_);
      function_.store(function, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function>(function);
  }

 private:
  const char* name_;
  std::atomic<void*> function_ = nullptr;
};

constinit LazyFunction<Result (*)(Device*)> context_device("cuCtxGetDevice");
constinit LazyFunction<Result (*)(Stream, Context*)> stream_context("cuStreamGetCtx");
constinit LazyFunction<Result (*)(Context)> push_context("cuCtxPushCurrent_v2");
constinit LazyFunction<Result (*)(Context*)> pop_context("cuCtxPopCurrent_v2");
constinit LazyFunction<Result (*)(void*, int, DevicePointer)> pointer_attribute(
    "cuPointerGetAttribute");
constinit LazyFunction<Result (*)(MemoryProperties*, Handle)> handle_properties(
    "cuMemGetAllocationPropertiesFromHandle");

// The default stream, and the handles CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
bool is_default(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

}  // namespace

Device current_device() {
  const auto get = context_device.get();
  Device device = 0;
  return get != nullptr && get(&device) == kSuccess ? device : 0;
}

Device device_of_stream(Stream stream) {
  const auto context_of = stream_context.get();
  const auto push = push_context.get();
  const auto pop = pop_context.get();
  Context context = nullptr;
  if (is_default(stream) || context_of == nullptr || push == nullptr || pop == nullptr ||
      context_of(stream, &context) != kSuccess || push(context) != kSuccess) {
    return current_device();
  }
  const Device device = current_device();
  (void)pop(&context);
  return device;
}

// The driver says a device of the host's memory, too. It knows no address that a graph will have.
Device device_of_block(DevicePointer address, Stream stream) {
  const auto get = pointer_attribute.get();
  unsigned type = 0;
  Device device = 0;
  if (get == nullptr || get(&type, kAttributeMemoryType, address) != kSuccess ||
      get(&device, kAttributeDeviceOrdinal, address) != kSuccess) {
    return device_of_stream(stream);
  }
  return type != kMemoryTypeHost && device >= 0 ? device : kHost;
}

Device device_of_handle(Handle handle, Device unknown) {
  const auto get = handle_properties.get();
  MemoryProperties properties{};
  if (get == nullptr || get(&properties, handle) != kSuccess) return unknown;
  return properties.location_type == kLocationDevice ? properties.location : kHost;
}

}  // namespace vram::tap
