// A table with open addressing and linear probing, at most half full. No C++ run-time library is
// there for a better one.
#include "tap/allocations.hpp"

#include <cstdlib>
#include <pthread.h>

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

void add_allocation(const Allocation& allocation) {
  (void)pthread_once(&watches_forks, watch_forks);
  const Locked locked;
  if (allocation.address == 0) return;
  if ((count + 1) * 2 > capacity && !grow()) return;
  Allocation& entry = entries[place_of(allocation.address)];
  if (entry.address == 0) ++count;
  entry = allocation;
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

}  // namespace vram::tap
