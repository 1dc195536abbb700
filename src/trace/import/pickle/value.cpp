#include "trace/import/pickle/value.hpp"

#include <algorithm>
#include <sys/mman.h>

namespace vram::trace::pickle {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPageSlots = kPageBytes / sizeof(Value);
constexpr uint64_t kNewest = 2 * kPageSlots;  // may still be open containers

Value after(const Value& value, uint64_t steps) {
  return {value.kind(), value.payload() + steps, value.tag()};
}

}  // namespace

Value Memo::Run::at(uint64_t offset) const {
  return after(starts[offset % stride], offset / stride);
}

Value Memo::find(uint64_t index) const {
  if (index >= size()) return Value::unset();
  if (slots_[index] != Value::unset()) return slots_[index];
  const Run* run = run_of(index);
  return run == nullptr ? Value::unset() : run->at(index - run->first);
}

void Memo::store(uint64_t index, const Value& value) {
  while (index >= size()) slots_.push_back(Value::unset());
  used_ += find(index) == Value::unset() ? 1 : 0;
  slots_[index] = value;
}

const Memo::Run* Memo::run_of(uint64_t index) const {
  auto run = std::upper_bound(runs_.begin(), runs_.end(), index,
                              [](uint64_t i, const Run& r) { return i < r.first; });
  if (run == runs_.begin()) return nullptr;
  --run;
  return index - run->first < run->count ? &*run : nullptr;
}

void Memo::compact() {
  while (looked_at_ + kPageSlots + kNewest < size()) {
    const auto misaligned =
        reinterpret_cast<uintptr_t>(slots_.data() + looked_at_) % kPageBytes / sizeof(Value);
    const uint64_t first = looked_at_ + (misaligned == 0 ? 0 : kPageSlots - misaligned);
    for (const uint64_t stride : {uint64_t{1}, uint64_t{2}}) {
      if (!counts_up(first, stride)) continue;
      make_run(first, stride);
      break;
    }
    looked_at_ = first + kPageSlots;
  }
}

bool Memo::counts_up(uint64_t first, uint64_t stride) const {
  for (uint64_t i = 0; i < stride; ++i) {
    if (slots_[first + i].kind() != Kind::kRecord) return false;
  }
  for (uint64_t i = first + stride; i < first + kPageSlots; ++i) {
    if (slots_[i] != after(slots_[i - stride], 1)) return false;
  }
  return true;
}

void Memo::make_run(uint64_t first, uint64_t stride) {
  const Run run = {first, kPageSlots, stride, {slots_[first], slots_[first + 1]}};
  // The page reads as zeros from now on, which is what an unset slot is.
  if (madvise(slots_.data() + first, kPageBytes, MADV_DONTNEED) != 0) return;
  in_runs_ += kPageSlots;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    const bool follows = last.first + last.count == first && last.stride == stride &&
                         last.at(last.count) == run.at(0) && last.at(last.count + 1) == run.at(1);
    if (follows) {
      last.count += kPageSlots;
      return;
    }
  }
  runs_.push_back(run);
}

}  // namespace vram::trace::pickle
