#include "pool/shelf.hpp"

#include <mutex>
#include <utility>

namespace vram::pool {

// The bin of that size and stream, or the unused one where it would be.
Shelf::Bin* Shelf::find(uint64_t size_bytes, StreamHandle stream) {
  uint64_t at = (size_bytes / kAlignmentBytes * 31 + stream) * 0x9e37'79b9'7f4a'7c15 >> 56;
  while (bins_[at].size_bytes != 0 &&
         (bins_[at].size_bytes != size_bytes || bins_[at].stream != stream)) {
    at = (at + 1) % kBins;
  }
  return &bins_[at];
}

bool Shelf::take(uint64_t size_bytes, StreamHandle stream, Entry* entry) {
  const std::lock_guard guard(lock_);
  if (bins_.empty()) return false;
  Bin* bin = find(size_bytes, stream);
  if (bin->count == 0) return false;
  *entry = bin->entries[--bin->count];
  bytes_.store(bytes() - size_bytes, std::memory_order_relaxed);
  count_.store(count() - 1, std::memory_order_relaxed);
  return true;
}

bool Shelf::put(const Entry& entry, uint64_t most_bytes) {
  const std::lock_guard guard(lock_);
  if (bytes() + entry.size_bytes > most_bytes) return false;
  if (bins_.empty()) bins_.resize(kBins);
  Bin* bin = find(entry.size_bytes, entry.stream);
  if (bin->count == kDepth) return false;
  if (bin->size_bytes == 0) {
    if (bins_used_ == kBins / 2) return false;  // searches stay short
    ++bins_used_;
    bin->size_bytes = entry.size_bytes;
    bin->stream = entry.stream;
  }
  bin->entries[bin->count++] = entry;
  bytes_.store(bytes() + entry.size_bytes, std::memory_order_relaxed);
  count_.store(count() + 1, std::memory_order_relaxed);
  return true;
}

std::vector<Entry> Shelf::clear() {
  std::vector<Entry> all;
  const std::lock_guard guard(lock_);
  for (Bin& bin : bins_) {
    all.insert(all.end(), bin.entries.begin(), bin.entries.begin() + bin.count);
    bin.size_bytes = 0;
    bin.count = 0;
  }
  bins_used_ = 0;
  bytes_.store(0, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  return all;
}

}  // namespace vram::pool
