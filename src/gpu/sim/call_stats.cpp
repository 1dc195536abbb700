#include "gpu/sim/call_stats.hpp"

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

uint64_t CallStats::count() const {
  uint64_t sum = 0;
  for (const One& one : calls) sum += one.count;
  return sum;
}

int64_t CallStats::time_ns() const {
  int64_t sum = 0;
  for (const One& one : calls) sum += one.time_ns;
  return sum;
}

}  // namespace vram::gpu
