// What the programs that run the adapter between the stand-ins check with: each counts the checks
// that failed and says which.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace stand_in {

inline int failures = 0;

inline c10::cuda::CUDACachingAllocator::CUDAAllocator& current() {
  return *c10::cuda::CUDACachingAllocator::get();
}
inline c10::MempoolId_t pool_id(unsigned long long number) { return {0, number}; }
inline std::function<bool(cudaStream_t)> only(uintptr_t accepted) {
  return [accepted](cudaStream_t asked) { return reinterpret_cast<uintptr_t>(asked) == accepted; };
}

inline std::string text(const void* address) {
  return std::to_string(reinterpret_cast<uintptr_t>(address));
}
inline c10::cuda::CUDAStream stream(uintptr_t value) {
  const c10::Device device(c10::DeviceType::CUDA, 0);
  return c10::cuda::CUDAStream(
      c10::Stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(value)));
}

}  // namespace stand_in

#define CHECK(condition)                                                               \
  if (!(condition)) {                                                                  \
    std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
    ++stand_in::failures;                                                              \
  }
