#include "gpu/sim/faults.hpp"

#include "base/result.hpp"

namespace vram::gpu {

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
