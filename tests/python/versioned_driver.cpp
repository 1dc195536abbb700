// libcuda.so.1 for tests of the driver tap: what of the real driver depends on versions, contexts,
// streams, pools and handles, without memory. An address is a number; each device has its own range
// of them. A context is a device's number and 1, a stream 16 times that.
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace {

using Result = int;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
constexpr Result kInvalidContext = 201;
constexpr Result kNotFound = 500;
constexpr Result kIllegalAddress = 700;
constexpr uint64_t kCapacity = uint64_t{1} << 36;

struct Properties {  // CUmemAllocationProp
  int type, handle_types, location_type, location;
  void* security;
  unsigned char flags[8];
};

struct Piece {
  uint64_t bytes;
  int device;  // -1: the host's
};

std::mutex lock;
std::map<uint64_t, Piece> allocations;
std::map<uint64_t, Piece> mappings;
std::map<uint64_t, Properties> handles;
uint64_t last_address = 0;
uint64_t last_handle = 0;
bool is_broken = false;        // as after an illegal address: every call fails
thread_local int current = 0;  // device + 1; 0: none
thread_local std::vector<int> below;

int device_of(void* stream) {
  return static_cast<int>(stream == nullptr ? current : reinterpret_cast<intptr_t>(stream) / 16) -
         1;
}

Result allocate(uint64_t* address, size_t bytes, int device) {
  const std::lock_guard guard(lock);
  if (device < 0) return kInvalidContext;
  if (bytes > kCapacity) return kOutOfMemory;
  *address = (uint64_t{7} << 44) + (static_cast<uint64_t>(device) << 40) + last_address;
  last_address += (bytes + 511) / 512 * 512;
  allocations[*address] = {bytes, device};
  return 0;
}

Result release(uint64_t address) {
  const std::lock_guard guard(lock);
  if (is_broken) return kIllegalAddress;
  return address == 0 || allocations.erase(address) == 1 ? 0 : kInvalidValue;
}

}  // namespace

extern "C" {

// Controls, which no driver has.
void break_device(int is_to_be) { is_broken = is_to_be != 0; }
void forget_all() {  // as at the end of a context; addresses begin again
  const std::lock_guard guard(lock);
  allocations.clear();
  last_address = 0;
}

Result cuInit(unsigned) { return 0; }
Result cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(intptr_t{device} + 1);
  return 0;
}
Result cuCtxSetCurrent(void* context) {
  current = static_cast<int>(reinterpret_cast<intptr_t>(context));
  return 0;
}
Result cuCtxPushCurrent_v2(void* context) {
  below.push_back(current);
  return cuCtxSetCurrent(context);
}
Result cuCtxPopCurrent_v2(void** context) {
  if (below.empty()) return kInvalidContext;
  *context = reinterpret_cast<void*>(intptr_t{current});
  current = below.back();
  below.pop_back();
  return 0;
}
Result cuCtxGetDevice(int* device) {
  *device = current - 1;
  return current != 0 ? 0 : kInvalidContext;
}
Result cuStreamGetCtx(void* stream, void** context) {
  *context = reinterpret_cast<void*>(intptr_t{device_of(stream)} + 1);
  return 0;
}
// As the driver of CUDA 13.0 says it: the host's memory has a device, too, and another type.
Result cuPointerGetAttribute(void* data, int attribute, uint64_t address) {
  const std::lock_guard guard(lock);
  const auto found = allocations.find(address);
  if (found == allocations.end()) return kInvalidValue;
  const bool is_host = found->second.device < 0;
  const int type = is_host ? 1 : 2;
  const int device = is_host ? 0 : found->second.device;
  if (attribute != 2 && attribute != 9) return kInvalidValue;
  std::memcpy(data, attribute == 2 ? &type : &device, sizeof(int));
  return 0;
}

// Of before 3.2: an address has 32 bits.
Result cuMemAlloc(uint32_t* address, unsigned bytes) {
  *address = bytes;
  return 0;
}
Result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  return allocate(address, bytes, current - 1);
}
// Of a CUDA to come.
Result cuMemAlloc_v3(int device, size_t bytes, uint64_t* address) {
  return allocate(address, bytes, device);
}
Result cuMemAllocManaged(uint64_t* address, size_t bytes, unsigned) {
  return allocate(address, bytes, current - 1);
}
Result cuMemAllocAsync(uint64_t* address, size_t bytes, void* stream) {
  return allocate(address, bytes, device_of(stream));
}
// A pool is a device's number and 1; 9: the host's.
Result cuMemAllocFromPoolAsync(uint64_t* address, size_t bytes, void* pool, void*) {
  const auto number = static_cast<int>(reinterpret_cast<intptr_t>(pool));
  const Result result = allocate(address, bytes, number - 1);
  if (number == 9) allocations[*address].device = -1;
  return result;
}
Result cuMemFree_v2(uint64_t address) { return release(address); }
Result cuMemFreeAsync(uint64_t address, void*) { return release(address); }

// Copies nothing: only the calls count.
Result cuMemcpyHtoDAsync_v2(uint64_t, const void*, size_t, void*) { return 0; }
Result cuMemcpyDtoH_v2(void*, uint64_t, size_t) { return 0; }

// The driver gives numbers of released handles again.
void reuse_handle(uint64_t handle) { last_handle = handle - 1; }
Result cuMemCreate(uint64_t* handle, size_t, const Properties* properties, uint64_t) {
  const std::lock_guard guard(lock);
  handles[*handle = ++last_handle] = *properties;
  return 0;
}
Result cuMemGetAllocationPropertiesFromHandle(Properties* properties, uint64_t handle) {
  const std::lock_guard guard(lock);
  const auto found = handles.find(handle);
  if (found == handles.end()) return kInvalidValue;
  *properties = found->second;
  return 0;
}
Result cuMemMap(uint64_t address, size_t bytes, size_t, uint64_t, uint64_t) {
  const std::lock_guard guard(lock);
  return mappings.try_emplace(address, Piece{bytes, 0}).second ? 0 : kInvalidValue;
}
// Whole mappings that adjoin.
Result cuMemUnmap(uint64_t address, size_t bytes) {
  const std::lock_guard guard(lock);
  if (is_broken) return kIllegalAddress;
  const uint64_t end = address + bytes;
  while (address < end) {
    const auto found = mappings.find(address);
    if (found == mappings.end()) return kInvalidValue;
    address += found->second.bytes;
    mappings.erase(found);
  }
  return address == end ? 0 : kInvalidValue;
}

Result cuGetProcAddress(const char* name, void** function, int version, uint64_t flags);

// 0: found.
Result cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t, int* status) {
  const struct {
    const char* name;
    int version;
    void* function;
  } known[] = {
      {"cuMemAlloc", 14000, reinterpret_cast<void*>(&cuMemAlloc_v3)},
      {"cuMemAlloc", 3020, reinterpret_cast<void*>(&cuMemAlloc_v2)},
      {"cuMemAlloc", 2000, reinterpret_cast<void*>(&cuMemAlloc)},
      {"cuMemFree", 3020, reinterpret_cast<void*>(&cuMemFree_v2)},
      {"cuGetProcAddress", 12000, reinterpret_cast<void*>(&cuGetProcAddress_v2)},
      {"cuGetProcAddress", 11030, reinterpret_cast<void*>(&cuGetProcAddress)},
  };
  *function = nullptr;
  for (const auto& entry : known) {
    if (std::strcmp(entry.name, name) != 0 || entry.version > version) continue;
    *function = entry.function;
    break;
  }
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;
  return *function != nullptr ? 0 : kNotFound;
}
Result cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"
