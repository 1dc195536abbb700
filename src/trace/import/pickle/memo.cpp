#include "trace/import/pickle/memo.hpp"

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

Value Memo::find(uint64_t index) const {
  if (index >= size()) return Value::unset();
  if (slots_[index] != Value::unset()) return slots_[index];
  const Run* run = run_of(index);
  return run == nullptr ? Value::unset() : after(run->value, index - run->first);
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
    const Value start = slots_[first];
    uint64_t count = 0;
    while (count < kPageSlots && slots_[first + count] == after(start, count)) ++count;
    if (start.kind() == Kind::kRecord && count == kPageSlots) make_run(first, count);
    looked_at_ = first + kPageSlots;
  }
}

void Memo::make_run(uint64_t first, uint64_t count) {
  const Value start = slots_[first];
  // The pages read as zeros from now on, which is what an unset slot is.
  if (madvise(slots_.data() + first, count * sizeof(Value), MADV_DONTNEED) != 0) return;
  in_runs_ += count;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (last.first + last.count == first && after(last.value, last.count) == start) {
      last.count += count;
      return;
    }
  }
  runs_.push_back({first, count, start});
}

}  // namespace vram::trace::pickle
