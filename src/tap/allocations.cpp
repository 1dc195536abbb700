// Tables with open addressing and linear probing, at most half full. No C++ run-time library is
// there for better ones.
#include "tap/allocations.hpp"

#include "tap/cuda.hpp"

#include <atomic>
#include <cstdlib>
#include <pthread.h>

namespace vram::tap {
namespace {

constexpr size_t kFirstEntries = 256;
// Mappings begin at multiples of it on every GPU.
constexpr size_t kMinMappingBytes = size_t{64} << 10;

// A handle, and one of the mappings of its memory, from which the others are found.
struct Mapped {
  Handle handle = 0;
  DevicePointer address = 0;
};

// 0: a free entry.
uint64_t key_of(const Allocation& entry) { return entry.address; }
uint64_t key_of(const Mapped& entry) { return entry.handle; }

template <typename Entry>
class Table {
 public:
  // nullptr: not there.
  Entry* find(uint64_t key) {
    if (capacity_ == 0 || key == 0) return nullptr;
    Entry& entry = entries_[place_of(key)];
    return key_of(entry) != 0 ? &entry : nullptr;
  }
  // Makes room for one more; false: there is no memory.
  bool reserve() { return (count_ + 1) * 2 <= capacity_ || grow(); }
  // In place of the one with its key. There is room.
  Entry* put(const Entry& entry) {
    Entry& to = entries_[place_of(key_of(entry))];
    if (key_of(to) == 0) ++count_;
    to = entry;
    return &to;
  }
  // Entries behind that are not at home move up, so that no search ends too early.
  void erase(Entry* entry) {
    --count_;
    auto hole = static_cast<size_t>(entry - entries_);
    for (size_t next = (hole + 1) & (capacity_ - 1); key_of(entries_[next]) != 0;
         next = (next + 1) & (capacity_ - 1)) {
      const size_t from_home = (next - home_of(key_of(entries_[next]))) & (capacity_ - 1);
      const size_t from_hole = (next - hole) & (capacity_ - 1);
      if (from_home < from_hole) continue;
      entries_[hole] = entries_[next];
      hole = next;
    }
    entries_[hole] = {};
  }
  [[nodiscard]] bool is_empty() const { return count_ == 0; }

 private:
  [[nodiscard]] size_t home_of(uint64_t key) const {
    return (key ^ key >> 9) * 0x9e3779b97f4a7c15u >> 20 & (capacity_ - 1);
  }
  // Where the key is, or would be.
  [[nodiscard]] size_t place_of(uint64_t key) const {
    size_t place = home_of(key);
    while (key_of(entries_[place]) != 0 && key_of(entries_[place]) != key)
      place = (place + 1) & (capacity_ - 1);
    return place;
  }
  bool grow() {
    Entry* const old = entries_;
    const size_t old_capacity = capacity_;
    const size_t wanted = capacity_ == 0 ? kFirstEntries : capacity_ * 2;
    auto* const made = static_cast<Entry*>(std::calloc(wanted, sizeof(Entry)));
    if (made == nullptr) return false;
    entries_ = made;
    capacity_ = wanted;
    for (size_t i = 0; i < old_capacity; ++i) {
      if (key_of(old[i]) != 0) entries_[place_of(key_of(old[i]))] = old[i];
    }
    std::free(old);
    return true;
  }

  Entry* entries_ = nullptr;
  size_t capacity_ = 0;  // a power of two
  size_t count_ = 0;
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_once_t watches_forks = PTHREAD_ONCE_INIT;
constinit Table<Allocation> blocks;
constinit Table<Mapped> handles;

void take_lock() { (void)pthread_mutex_lock(&lock); }
void give_lock() { (void)pthread_mutex_unlock(&lock); }
// A child finds the tables whole.
void watch_forks() { (void)pthread_atfork(take_lock, give_lock, give_lock); }

class Locked {
 public:
  Locked() {
    (void)pthread_once(&watches_forks, watch_forks);
    take_lock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { give_lock(); }
};

// Adds a mapping to the ring of those of its memory: the first one is counted.
void join_ring(Allocation& block) {
  block.next = block.address;
  if (block.handle == 0) return;
  if (const Mapped* const first = handles.find(block.handle); first != nullptr) {
    Allocation& other = *blocks.find(first->address);
    block.next = other.next;
    other.next = block.address;
    block.is_counted = false;
  } else if (handles.reserve()) {
    handles.put({block.handle, block.address});
  }
}

// Returns what is counted in its place; none: an allocation without an address.
Allocation leave_ring(const Allocation& gone) {
  const bool is_last = gone.next == gone.address;
  Mapped* const first = handles.find(gone.handle);
  if (first != nullptr && first->address == gone.address) {
    first->address = gone.next;
    if (is_last) handles.erase(first);
  }
  if (is_last) return {};
  Allocation* before = blocks.find(gone.next);
  while (before->next != gone.address) before = blocks.find(before->next);
  before->next = gone.next;
  if (!gone.is_counted) return {};
  before->is_counted = true;
  return *before;
}

bool take_locked(DevicePointer address, Gone* taken) {
  Allocation* const found = blocks.find(address);
  if (found == nullptr) return false;
  *taken = {*found, leave_ring(*found)};
  blocks.erase(found);
  return true;
}

}  // namespace

Added add_allocation(const Allocation& allocation) {
  const Locked locked;
  Added added;
  if (allocation.address == 0) return added;
  (void)take_locked(allocation.address, &added.before);
  if (!blocks.reserve()) return added;
  Allocation* const block = blocks.put(allocation);
  block->is_counted = true;
  join_ring(*block);
  added.is_added = true;
  added.is_counted = block->is_counted;
  return added;
}

bool take_allocation(DevicePointer address, Gone* taken) {
  const Locked locked;
  return take_locked(address, taken);
}

bool take_allocation_in(DevicePointer begin, DevicePointer end, Gone* taken) {
  const Locked locked;
  for (DevicePointer at = begin; at < end; at += kMinMappingBytes) {
    if (blocks.is_empty()) return false;
    if (take_locked(at, taken)) return true;
  }
  return false;
}

void renew_handle(Handle handle) {
  const Locked locked;
  if (Mapped* const former = handles.find(handle); former != nullptr) handles.erase(former);
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
