#include "gpu/sim/calls.hpp"

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

void Faults::fail_nth(uint64_t nth, Status status) {
  VRAM_CHECK(nth > 0);
  planned_.push_back({std::nullopt, nth, status});
}

void Faults::fail_nth(Call call, uint64_t nth, Status status) {
  VRAM_CHECK(nth > 0);
  planned_.push_back({call, nth, status});
}

void Faults::fail_at_random(double rate, uint64_t seed, Status status, std::optional<Call> only) {
  random_.seed(seed);
  rate_ = rate;
  random_status_ = status;
  random_only_ = only;
}

void Faults::clear() { *this = Faults{}; }

Status Faults::next(Call call) {
  // Both always count, so that one kind of fault never shifts the other.
  const Status planned = next_planned(call);
  const Status random = next_random(call);
  if (broken_) return Status::kFault;
  const Status status = planned != Status::kOk ? planned : random;
  broken_ = status == Status::kFault;
  return status;
}

Status Faults::next_planned(Call call) {
  Status status = Status::kOk;
  for (Planned& fault : planned_) {
    if (fault.only && *fault.only != call) continue;
    if (--fault.calls_left == 0 && status == Status::kOk) status = fault.status;
  }
  std::erase_if(planned_, [](const Planned& fault) { return fault.calls_left == 0; });
  return status;
}

Status Faults::next_random(Call call) {
  if (rate_ <= 0 || (random_only_ && *random_only_ != call)) return Status::kOk;
  // 53 bits as a fraction: std's distributions differ from library to library.
  const double draw = static_cast<double>(random_() >> 11) * 0x1p-53;
  return draw < rate_ ? random_status_ : Status::kOk;
}

}  // namespace vram::gpu
