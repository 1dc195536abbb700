#include "gpu/sim/costs.hpp"

#include "base/result.hpp"

#include <cmath>

namespace vram::gpu {

int64_t SizeCost::at(uint64_t bytes) const {
  VRAM_CHECK(count >= 2);
  if (bytes <= points[0].bytes) return points[0].ns;
  uint32_t right = 1;
  while (right + 1 < count && bytes > points[right].bytes) ++right;
  const CostPoint& a = points[right - 1];
  const CostPoint& b = points[right];
  const double share =
      static_cast<double>(bytes - a.bytes) / static_cast<double>(b.bytes - a.bytes);
  return a.ns + std::llround(share * static_cast<double>(b.ns - a.ns));
}

int64_t Costs::of(Call call, uint64_t bytes) const {
  switch (call) {
    case Call::kMemoryInfo:
      return memory_info_ns;
    case Call::kAllocSegment:
      return alloc_segment.at(bytes);
    case Call::kFreeSegment:
      return free_segment.at(bytes);
    case Call::kReserve:
      return reserve_ns;
    case Call::kUnreserve:
      return unreserve_ns;
    case Call::kCreate:
      return create.at(bytes);
    case Call::kRelease:
      return release.at(bytes);
    case Call::kMap:
      return map_ns;
    case Call::kSetAccess:
      return set_access.at(bytes);
    case Call::kUnmap:
      return unmap.at(bytes);
    case Call::kRecord:
      return record_ns;
    case Call::kQuery:
      return query_ns;
    case Call::kWait:
      return wait_ns;
    case Call::kStreamWait:
      return stream_wait_ns;
    case Call::kDestroy:
      return destroy_ns;
    case Call::kSynchronize:
      return synchronize_ns;
    case Call::kMallocAsync:
      return malloc_async_ns;
    case Call::kFreeAsync:
      return free_async_ns;
    case Call::kPin:
    case Call::kUnpin:
    case Call::kCreateStream:
    case Call::kDestroyStream:
    case Call::kCopyIn:
    case Call::kCopyOut:
    case Call::kCopy:
    case Call::kFill:
      return 0;  // the time of copies is not simulated
  }
  return 0;
}

}  // namespace vram::gpu
