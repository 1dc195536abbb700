// FreeSet: the free blocks of one stream and pool, ordered by (size, address), as PyTorch's
// allocators order them. Short sorted runs behind a directory of their first entries: a search
// touches a few cache lines, an insertion moves at most one run. Not thread-safe; allocates only
// when it holds more than ever before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace vram::replay {

struct FreeBlock {
  uint64_t size_bytes = 0;
  uint64_t address = 0;
  uint32_t node = 0;
  // Bitwise on purpose: the outcome is random, and a branch on it would be mispredicted every other
  // time.
  friend bool operator<(const FreeBlock& a, const FreeBlock& b) {
    return static_cast<bool>(static_cast<unsigned>(a.size_bytes < b.size_bytes) |
                             (static_cast<unsigned>(a.size_bytes == b.size_bytes) &
                              static_cast<unsigned>(a.address < b.address)));
  }
};

class FreeSet {
 public:
  // A place between blocks; invalid after any change.
  struct Cursor {
    uint32_t run = 0;
    uint32_t slot = 0;
  };

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] size_t size() const { return count_; }

  // First block of at least that size; is_end() when there is none.
  [[nodiscard]] Cursor at_least(uint64_t size_bytes) const { return find({size_bytes, 0, 0}); }
  [[nodiscard]] bool is_end(Cursor cursor) const { return cursor.run >= directory_.size(); }
  [[nodiscard]] const FreeBlock& operator[](Cursor cursor) const {
    return runs_[directory_[cursor.run].run].blocks[cursor.slot];
  }
  [[nodiscard]] Cursor next(Cursor cursor) const {
    if (++cursor.slot < runs_[directory_[cursor.run].run].count) return cursor;
    return {cursor.run + 1, 0};
  }
  [[nodiscard]] Cursor begin() const { return {}; }
  // nullptr when empty.
  [[nodiscard]] const FreeBlock* largest() const {
    if (directory_.empty()) return nullptr;
    const Run& run = runs_[directory_.back().run];
    return &run.blocks[run.count - 1];
  }

  void insert(const FreeBlock& block);
  // The block must be there.
  void erase(uint64_t size_bytes, uint64_t address) { erase(find({size_bytes, address, 0})); }
  void erase(Cursor cursor);

 private:
  static constexpr uint32_t kRunCapacity = 48;
  struct Run {
    uint32_t count = 0;
    FreeBlock blocks[kRunCapacity];
  };
  struct Entry {
    FreeBlock first;
    uint32_t run = 0;
  };

  // Number of leading elements below key.
  template <typename T>
  static uint32_t count_below(const T* first, uint32_t count, const FreeBlock& key) {
    const T* base = first;
    while (count > 0) {
      const uint32_t half = (count + 1) / 2;
      base += is_below(base[half - 1], key) ? half : 0;
      count -= half;
    }
    return static_cast<uint32_t>(base - first);
  }
  static bool is_below(const FreeBlock& block, const FreeBlock& key) { return block < key; }
  static bool is_below(const Entry& entry, const FreeBlock& key) { return entry.first < key; }

  // First block not below key.
  [[nodiscard]] Cursor find(const FreeBlock& key) const {
    const uint32_t run = run_for(key);
    if (run >= directory_.size()) return {run, 0};
    const Run& found = runs_[directory_[run].run];
    const uint32_t slot = count_below(found.blocks, found.count, key);
    if (slot == found.count) return {run + 1, 0};
    return {run, slot};
  }
  // The last run whose first block is not above key, or the first run.
  [[nodiscard]] uint32_t run_for(const FreeBlock& key) const {
    if (directory_.size() <= 1) return 0;
    uint32_t below = count_below(directory_.data(), static_cast<uint32_t>(directory_.size()), key);
    if (below < directory_.size() && !(key < directory_[below].first)) return below;
    return below == 0 ? 0 : below - 1;
  }
  [[nodiscard]] uint32_t new_run();
  void split(uint32_t run);

  std::vector<Entry> directory_;  // runs in order
  std::vector<Run> runs_;
  std::vector<uint32_t> unused_runs_;
  size_t count_ = 0;
};

}  // namespace vram::replay
