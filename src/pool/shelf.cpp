#include "pool/shelf.hpp"

#include <mutex>
#include <utility>

namespace vram::pool {

// The bin of that size and stream, or the unused one where it would be.
Shelf::Bin& Shelf::find(uint64_t size_bytes, StreamHandle stream) {
  const uint64_t hash = (size_bytes / kAlignmentBytes * 31 + stream) * 0x9e37'79b9'7f4a'7c15;
  uint64_t at = hash >> (64 - kBinsLog2);
  while (bins_[at].size_bytes != 0 &&
         (bins_[at].size_bytes != size_bytes || bins_[at].stream != stream)) {
    at = (at + 1) % kBins;
  }
  return bins_[at];
}

Entry* Shelf::take(uint64_t size_bytes, StreamHandle stream) {
  const std::lock_guard guard(lock_);
  if (counts_.blocks == 0) return nullptr;
  Bin& bin = find(size_bytes, stream);
  Entry* entry = bin.last;
  if (entry == nullptr) return nullptr;
  bin.last = entry->next;
  entry->state.store(EntryState::kLive, std::memory_order_relaxed);
  if (--counts_.blocks == 0) is_empty_.store(true, std::memory_order_relaxed);
  counts_.bytes -= size_bytes;
  ++counts_.taken_blocks;
  counts_.taken_bytes += size_bytes;
  return entry;
}

bool Shelf::put(Entry* entry, uint64_t most_bytes) {
  const std::lock_guard guard(lock_);
  if (!entry->is_live() || counts_.bytes + entry->size_bytes > most_bytes) return false;
  if (bins_.empty()) bins_.resize(kBins);
  Bin& bin = find(entry->size_bytes, entry->stream);
  if (bin.size_bytes == 0) {
    if (bins_used_ == kBins / 2) return false;  // searches stay short
    ++bins_used_;
    bin = {entry->size_bytes, entry->stream, nullptr};
  }
  entry->next = std::exchange(bin.last, entry);
  entry->state.store(EntryState::kShelved, std::memory_order_relaxed);
  if (++counts_.blocks == 1) is_empty_.store(false, std::memory_order_relaxed);
  counts_.bytes += entry->size_bytes;
  return true;
}

Entry* Shelf::clear() {
  const std::lock_guard guard(lock_);
  Entry* all = nullptr;
  for (Bin& bin : bins_) {
    while (bin.last != nullptr) {
      Entry* entry = bin.last;
      bin.last = std::exchange(entry->next, all);
      all = entry;
    }
    bin.size_bytes = 0;
  }
  bins_used_ = 0;
  counts_.blocks = counts_.bytes = 0;
  is_empty_.store(true, std::memory_order_relaxed);
  return all;
}

Shelf::Counts Shelf::counts() {
  const std::lock_guard guard(lock_);
  return counts_;
}

void Shelf::reset_taken() {
  const std::lock_guard guard(lock_);
  counts_.taken_blocks = counts_.taken_bytes = 0;
}

}  // namespace vram::pool
