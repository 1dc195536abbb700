// A program that is linked to the driver (-lcuda), as C++ programs are that use its API themselves.
// It allocates by the way that its argument names; what it does is in test_linked_driver.py.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using Result = int;
struct Location {
  int type, id;
};
struct Properties {  // CUmemAllocationProp
  int type, handle_types;
  Location location;
  void* security;
  unsigned char flags[8];
};
using Alloc = Result (*)(uint64_t*, size_t);

extern "C" {
Result cuInit(unsigned flags);
Result cuDevicePrimaryCtxRetain(void** context, int device);
Result cuCtxPushCurrent_v2(void* context);
Result cuMemAlloc_v2(uint64_t* address, size_t bytes);
Result cuMemFree_v2(uint64_t address);
Result cuMemAddressReserve(uint64_t* address, size_t bytes, size_t alignment, uint64_t near,
                           unsigned long long flags);
Result cuMemCreate(uint64_t* handle, size_t bytes, const Properties* properties,
                   unsigned long long flags);
Result cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
                unsigned long long flags);
Result cuMemUnmap(uint64_t address, size_t bytes);
Result cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                           void* status);
}

namespace {

constexpr size_t kMiB = size_t{1} << 20;

void expect(bool holds) {
  if (!holds) std::abort();
}

void* dlsym_of(void* handle) { return dlsym(handle, "cuMemAlloc_v2"); }

// A program without PIE that takes an address has a place of its own for it, by which all find the
// function.
Alloc alloc_by(const char* way) {
  void* found = nullptr;
  if (std::strcmp(way, "address") == 0) return &cuMemAlloc_v2;
  if (std::strcmp(way, "default") == 0) found = dlsym_of(RTLD_DEFAULT);
  if (std::strcmp(way, "next") == 0) found = dlsym_of(RTLD_NEXT);
  if (std::strcmp(way, "program") == 0) found = dlsym_of(dlopen(nullptr, RTLD_NOW));
  if (std::strcmp(way, "handle") == 0) found = dlsym_of(dlopen("libcuda.so.1", RTLD_NOW));
  if (std::strcmp(way, "proc") == 0)
    expect(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, nullptr) == 0);
  return reinterpret_cast<Alloc>(found);
}

void map_and_unmap() {
  uint64_t address = 0;
  uint64_t handle = 0;
  const Properties properties = {1, 0, {1, 1}, nullptr, {}};  // pinned memory of device 1
  expect(cuMemAddressReserve(&address, 4 * kMiB, 0, 0, 0) == 0);
  expect(cuMemCreate(&handle, 4 * kMiB, &properties, 0) == 0);
  expect(cuMemMap(address, 4 * kMiB, 0, handle, 0) == 0);
  expect(cuMemUnmap(address, 4 * kMiB) == 0);
}

}  // namespace

int main(int, char** words) {
  void* context = nullptr;
  expect(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 1) == 0);
  expect(cuCtxPushCurrent_v2(context) == 0);
  const bool is_linked = std::strcmp(words[1], "linked") == 0;
  const Alloc looked_up = is_linked ? nullptr : alloc_by(words[1]);
  const auto alloc = [&](uint64_t* address, size_t bytes) {
    return is_linked ? cuMemAlloc_v2(address, bytes) : looked_up(address, bytes);
  };
  uint64_t kept = 0;
  uint64_t gone = 0;
  expect(alloc(&kept, 5 * kMiB + 100) == 0);
  expect(alloc(&gone, 3 * kMiB) == 0);
  expect(cuMemFree_v2(gone) == 0);
  expect(alloc(&gone, size_t{1} << 40) == 2);
  map_and_unmap();
  expect(dlsym(RTLD_DEFAULT, "cuMemAllocAsync") == nullptr);  // this driver has none
  expect(dlerror() != nullptr);
}
