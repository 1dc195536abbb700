#include "gpu/call.hpp"

#include <array>

namespace vram::gpu {

std::string_view to_string(Call call) {
  static constexpr std::array<std::string_view, kCallCount> kNames = {
      "cuMemGetInfo",         "cudaMalloc",          "cudaFree",          "cuMemAddressReserve",
      "cuMemAddressFree",     "cuMemCreate",         "cuMemRelease",      "cuMemMap",
      "cuMemSetAccess",       "cuMemUnmap",          "cudaEventRecord",   "cudaEventQuery",
      "cudaEventSynchronize", "cudaStreamWaitEvent", "cudaEventDestroy",  "cudaDeviceSynchronize",
      "cudaMallocAsync",      "cudaFreeAsync",       "cuMemHostAlloc",    "cuMemFreeHost",
      "cuStreamCreate",       "cuStreamDestroy",     "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
      "cuMemcpyDtoDAsync",    "cuMemsetD32Async"};
  return kNames[static_cast<size_t>(call)];
}

}  // namespace vram::gpu
