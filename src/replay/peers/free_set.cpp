#include "replay/peers/free_set.hpp"

#include <algorithm>

namespace vram::replay {

uint32_t FreeSet::new_run() {
  if (unused_runs_.empty()) {
    runs_.emplace_back();
    return static_cast<uint32_t>(runs_.size() - 1);
  }
  const uint32_t run = unused_runs_.back();
  unused_runs_.pop_back();
  runs_[run].count = 0;
  return run;
}

// The upper half of a full run becomes a run of its own.
void FreeSet::split(uint32_t run) {
  const uint32_t added = new_run();
  Run& low = runs_[directory_[run].run];
  Run& high = runs_[added];
  constexpr uint32_t kHalf = kRunCapacity / 2;
  std::copy(low.blocks + kHalf, low.blocks + kRunCapacity, high.blocks);
  high.count = kRunCapacity - kHalf;
  low.count = kHalf;
  directory_.insert(directory_.begin() + run + 1, Entry{high.blocks[0], added});
}

void FreeSet::insert(const FreeBlock& block) {
  ++count_;
  if (directory_.empty()) directory_.push_back({block, new_run()});
  uint32_t at = run_for(block);
  if (runs_[directory_[at].run].count == kRunCapacity) {
    split(at);
    at = run_for(block);
  }
  Run& run = runs_[directory_[at].run];
  const uint32_t slot = count_below(run.blocks, run.count, block);
  std::memmove(run.blocks + slot + 1, run.blocks + slot, (run.count - slot) * sizeof(FreeBlock));
  run.blocks[slot] = block;
  ++run.count;
  if (slot == 0) directory_[at].first = block;
}

void FreeSet::erase(Cursor cursor) {
  --count_;
  Entry& entry = directory_[cursor.run];
  Run& run = runs_[entry.run];
  --run.count;
  std::memmove(run.blocks + cursor.slot, run.blocks + cursor.slot + 1,
               (run.count - cursor.slot) * sizeof(FreeBlock));
  if (run.count == 0) {
    unused_runs_.push_back(entry.run);
    directory_.erase(directory_.begin() + cursor.run);
  } else if (cursor.slot == 0) {
    entry.first = run.blocks[0];
  }
}

}  // namespace vram::replay
