// How newer programs find the driver's functions: by name, from the driver itself.
#include "gpu/cuda/driver_types.hpp"

#include <cstdint>
#include <dlfcn.h>
#include <string>

using vram::gpu::cuda::CUresult;

// NOLINTNEXTLINE(readability-identifier-naming): the driver's own name
extern "C" CUresult cuGetProcAddress_v2(const char* name, void** function, int /*version*/,
                                        uint64_t /*flags*/, void* /*status*/) {
  Dl_info own{};
  (void)dladdr(reinterpret_cast<const void*>(&cuGetProcAddress_v2), &own);
  void* const driver = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* suffix : {"_v2", ""}) {
    if (*function == nullptr) *function = dlsym(driver, (name + std::string(suffix)).c_str());
  }
  return *function != nullptr ? vram::gpu::cuda::kSuccess : vram::gpu::cuda::kErrorInvalidValue;
}
