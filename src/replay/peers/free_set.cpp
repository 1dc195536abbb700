#include "replay/peers/free_set.hpp"

#include <utility>

namespace vram::replay {

const FreeBlock* FreeSet::largest() const {
  const FreeBlock* largest = has_newest_ ? &newest_ : nullptr;
  for (size_t word = used_.size(); word-- > 0;) {
    if (used_[word] == 0) continue;
    const size_t bin = word * 64 + 63 - static_cast<size_t>(std::countl_zero(used_[word]));
    const FreeBlock& stored = bins_[bin].front().first;
    return largest == nullptr || *largest < stored ? &stored : largest;
  }
  return largest;
}

// Empty.
FreeSet::Run* FreeSet::new_run() {
  if (unused_runs_.empty()) return runs_.emplace_back(std::make_unique<Run>()).get();
  Run* run = unused_runs_.back();
  unused_runs_.pop_back();
  return run;
}

// The lower half of a full run becomes a run of its own.
void FreeSet::split(Bin& bin, uint32_t run) {
  Run& high = *bin[run].run;
  Run& low = *new_run();
  constexpr uint32_t kHalf = kRunCapacity / 2;
  std::copy(high.blocks + kHalf, high.blocks + kRunCapacity, low.blocks);
  low.count = kRunCapacity - kHalf;
  high.count = kHalf;
  bin.insert(bin.begin() + run + 1, Entry{low.blocks[0], &low});
}

// From one bin to all of them.
void FreeSet::spread() {
  const Run all = std::exchange(*bins_[0][0].run, Run{});
  bins_.resize(kBinCount);
  bin_mask_ = kBinCount - 1;
  used_[0] = 0;
  count_ = 0;
  for (uint32_t i = 0; i < all.count; ++i) store(all.blocks[i]);
}

void FreeSet::store(const FreeBlock& block) {
  if (count_ == kFewBlocks && bin_mask_ == 0) spread();
  ++count_;
  const uint32_t number = bin_of(block.size_bytes);
  Bin& bin = bins_[number];
  if (bin.empty()) bin.push_back({block, new_run()});
  used_[number / 64] |= uint64_t{1} << (number % 64);
  uint32_t at = run_for(bin, block);
  if (bin[at].run->count == kRunCapacity) {
    split(bin, at);
    at = run_for(bin, block);
  }
  Run& run = *bin[at].run;
  const uint32_t slot = count_from(run, block);
  std::copy_backward(run.blocks + slot, run.blocks + run.count, run.blocks + run.count + 1);
  run.blocks[slot] = block;
  ++run.count;
  if (slot == 0) bin[at].first = block;
}

void FreeSet::erase_stored(Cursor cursor) {
  --count_;
  const uint32_t number = cursor.bin();
  Bin& bin = bins_[number];
  Entry& entry = bin[cursor.run()];
  Run& run = *entry.run;
  FreeBlock* gone = run.blocks + cursor.slot();
  std::copy(gone + 1, run.blocks + run.count, gone);
  --run.count;
  if (run.count > 0) {
    entry.first = run.blocks[0];
  } else if (bin.size() > 1) {
    unused_runs_.push_back(entry.run);
    bin.erase(bin.begin() + cursor.run());
  } else {
    used_[number / 64] &= ~(uint64_t{1} << (number % 64));
  }
}

}  // namespace vram::replay
