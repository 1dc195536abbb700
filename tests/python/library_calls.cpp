// A library with CUDA's runtime in it, as NCCL and cuBLAS are: its calls of the driver come from
// its own code.
#include <cstddef>
#include <cstdint>
#include <dlfcn.h>

namespace {

template <typename Function>
Function* driver_function(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(driver, name));
}

}  // namespace

extern "C" {

uint64_t take(size_t bytes) {
  uint64_t address = 0;
  driver_function<int(uint64_t*, size_t)>("cuMemAlloc_v2")(&address, bytes);
  return address;
}

void give_back(uint64_t address) { driver_function<int(uint64_t)>("cuMemFree_v2")(address); }

void copy_to_device(uint64_t address, size_t bytes) {
  driver_function<int(uint64_t, const void*, size_t, void*)>("cuMemcpyHtoDAsync_v2")(
      address, nullptr, bytes, nullptr);
}

void copy_to_host(uint64_t address, size_t bytes) {
  driver_function<int(void*, uint64_t, size_t)>("cuMemcpyDtoH_v2")(nullptr, address, bytes);
}
}
