// Times vram's tracker where it runs: PyTorch calls one tracker of this file before it, one after
// it. flight_parts.py compiles and loads this; one thread allocates.
#include <algorithm>
#include <array>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdint>
#include <vector>
#include <x86intrin.h>

namespace {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;
using Entry = torch_cuda::TraceEntry;

constexpr std::array kActions = {Entry::ALLOC, Entry::FREE_REQUESTED, Entry::FREE_COMPLETED};

torch_cuda::CUDAAllocator* native = nullptr;
uint64_t began = 0;
std::array<std::vector<uint32_t>, kActions.size()> ticks;  // of each action

void before(const Entry&) { began = __rdtsc(); }

void after(const Entry& entry) {
  const uint64_t took = std::min<uint64_t>(__rdtsc() - began, UINT32_MAX);
  for (size_t i = 0; i < kActions.size(); ++i)
    if (entry.action_ == kActions[i]) ticks[i].push_back(static_cast<uint32_t>(took));
}

}  // namespace

extern "C" {

// Call the first before vram attaches its tracker, and the second afterwards.
C10_EXPORT void attach_before() {
  native = torch_cuda::allocator.load();
  native->attachAllocatorTraceTracker(&before);
}
C10_EXPORT void attach_after() { native->attachAllocatorTraceTracker(&after); }
C10_EXPORT uint64_t ticks_now() { return __rdtsc(); }
// The median of an action since the last call; 0: there was none.
C10_EXPORT uint32_t take_median(int action) {
  std::vector<uint32_t>& all = ticks[static_cast<size_t>(action)];
  if (all.empty()) return 0;
  const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  const uint32_t median = *middle;
  all.clear();
  return median;
}

}  // extern "C"
