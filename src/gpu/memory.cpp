#include "gpu/memory.hpp"

#include <array>

namespace vram::gpu {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kOutOfMemory:
      return "out of memory";
    case Status::kNotReady:
      return "not ready";
    case Status::kInvalidValue:
      return "invalid value";
    case Status::kNotSupported:
      return "not supported";
    case Status::kFault:
      return "device fault";
  }
  return "unknown";
}

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
