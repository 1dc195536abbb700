// FreeSet: the free blocks of one stream and pool, ordered by (size, address) as in PyTorch's
// allocators. Bins of an eighth of a power of two with a bitmap over them; a bin contains short
// sorted runs behind a directory of their first blocks, usually one run. So a search or a change
// touches a few cache lines for any number of blocks, also if all have one size. A small set uses a
// single bin. The last added block is kept outside the bins until the next one comes, since the
// block left by a short-lived tensor is usually reused immediately. Not thread-safe; allocates only
// when it holds more blocks than ever before.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vram::replay {

struct FreeBlock {
  uint64_t size_bytes = 0;
  uint64_t address = 0;
  uint32_t node = 0;
  // As one number on purpose: the outcome is random, and a branch on it would be mispredicted every
  // other time.
  friend bool operator<(const FreeBlock& a, const FreeBlock& b) { return a.order() < b.order(); }

 private:
  __extension__ typedef unsigned __int128 Order;
  [[nodiscard]] Order order() const { return Order{size_bytes} << 64 | address; }
};

class FreeSet {
 public:
  // A position between blocks; invalid after any change. A single word, because a result of several
  // words would be assembled in memory and delay the caller.
  class Cursor {
   public:
    Cursor() = default;

   private:
    friend class FreeSet;
    Cursor(uint32_t bin, uint32_t run, uint32_t slot)
        : place_(uint64_t{run} << 32 | bin << 8 | slot) {}
    [[nodiscard]] uint32_t bin() const { return static_cast<uint32_t>(place_) >> 8; }
    [[nodiscard]] uint32_t run() const { return static_cast<uint32_t>(place_ >> 32); }
    [[nodiscard]] uint32_t slot() const { return place_ & 0xff; }
    uint64_t place_ = 0;
  };

  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] size_t size() const { return count_ + (has_newest_ ? 1 : 0); }

  // The first block of at least this size; is_end() if there is none.
  [[nodiscard]] Cursor at_least(uint64_t size_bytes) const {
    const Cursor stored = stored_from(size_bytes);
    return is_newest_before(stored) && newest_.size_bytes >= size_bytes ? newest() : stored;
  }
  [[nodiscard]] bool is_end(Cursor cursor) const { return cursor.bin() == kBinCount; }
  [[nodiscard]] const FreeBlock& operator[](Cursor cursor) const {
    return is_newest(cursor) ? newest_ : stored_at(cursor);
  }
  [[nodiscard]] Cursor next(Cursor cursor) const {
    if (is_newest(cursor)) return find(newest_);
    const Cursor stored = next_stored(cursor);
    return is_newest_before(stored) && stored_at(cursor) < newest_ ? newest() : stored;
  }
  [[nodiscard]] Cursor begin() const {
    const Cursor stored = lowest_from(0);
    return is_newest_before(stored) ? newest() : stored;
  }
  // nullptr when empty.
  [[nodiscard]] const FreeBlock* largest() const;

  void insert(const FreeBlock& block) {
    if (has_newest_) store(newest_);
    newest_ = block;
    has_newest_ = true;
  }
  // The block must be there.
  void erase(uint64_t size_bytes, uint64_t address) {
    const bool is_it = newest_.address == address && newest_.size_bytes == size_bytes;
    erase(has_newest_ && is_it ? newest() : find({size_bytes, address, 0}));
  }
  void erase(Cursor cursor) {
    if (is_newest(cursor)) {
      has_newest_ = false;
    } else {
      erase_stored(cursor);
    }
  }

 private:
  static constexpr uint32_t kRunCapacity = 32;
  static constexpr uint32_t kBinCount = 256;
  // Blocks that share a bin, whatever their sizes, before there are bins: most streams of a program
  // that has thousands never have more.
  static constexpr size_t kFewBlocks = 8;
  // In falling order: requests take the lowest, and nothing has to move then.
  struct Run {
    uint32_t count = 0;
    FreeBlock blocks[kRunCapacity];
  };
  struct Entry {
    FreeBlock first;  // the run's highest block, if it has one
    Run* run = nullptr;
  };
  // Runs in falling order. The only run of a bin may be empty, others have blocks.
  using Bin = std::vector<Entry>;

  // Rises with the size; all from 7.5 TiB on share the last.
  [[nodiscard]] uint32_t bin_of(uint64_t size_bytes) const {
    const uint64_t units = (size_bytes >> 8) + 8;
    const auto shift = static_cast<uint32_t>(std::bit_width(units)) - 4;
    const uint64_t bin = shift * 8 + (units >> shift) - 8;
    return static_cast<uint32_t>(std::min<uint64_t>(bin, kBinCount - 1)) & bin_mask_;
  }
  // The first bin from there on that has blocks; kBinCount: none.
  [[nodiscard]] uint32_t used_bin(uint32_t from) const {
    if (from == kBinCount) return kBinCount;
    uint32_t word = from / 64;
    uint64_t bits = used_[word] & (~uint64_t{0} << (from % 64));
    while (bits == 0) {
      if (++word == used_.size()) return kBinCount;
      bits = used_[word];
    }
    return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  }
  [[nodiscard]] static Cursor newest() { return {kBinCount + 1, 0, 0}; }
  [[nodiscard]] static bool is_newest(Cursor cursor) { return cursor.bin() == kBinCount + 1; }
  [[nodiscard]] bool is_newest_before(Cursor stored) const {
    return has_newest_ && (is_end(stored) || newest_ < stored_at(stored));
  }
  [[nodiscard]] const FreeBlock& stored_at(Cursor cursor) const {
    return bins_[cursor.bin()][cursor.run()].run->blocks[cursor.slot()];
  }
  [[nodiscard]] Cursor next_stored(Cursor cursor) const {
    const uint32_t bin = cursor.bin();
    if (cursor.slot() > 0) return {bin, cursor.run(), cursor.slot() - 1};
    return cursor.run() > 0 ? last_of(bin, cursor.run() - 1) : lowest_from(bin + 1);
  }
  // First stored block of at least that size: mostly the lowest of its bin.
  [[nodiscard]] Cursor stored_from(uint64_t size_bytes) const {
    const Cursor lowest = lowest_from(bin_of(size_bytes));
    if (is_end(lowest) || stored_at(lowest).size_bytes >= size_bytes) return lowest;
    return find({size_bytes, 0, 0});
  }
  [[nodiscard]] Cursor last_of(uint32_t bin, uint32_t run) const {
    return {bin, run, bins_[bin][run].run->count - 1};
  }
  // The lowest block of the first bin from there on that has any.
  [[nodiscard]] Cursor lowest_from(uint32_t from) const {
    const uint32_t bin = used_bin(from);
    if (bin == kBinCount) return {kBinCount, 0, 0};
    return last_of(bin, static_cast<uint32_t>(bins_[bin].size()) - 1);
  }

  // First stored block not below key.
  [[nodiscard]] Cursor find(const FreeBlock& key) const {
    const uint32_t bin = bin_of(key.size_bytes);
    if (!bins_[bin].empty()) {
      const uint32_t run = run_for(bins_[bin], key);
      const uint32_t count = count_from(*bins_[bin][run].run, key);
      if (count > 0) return {bin, run, count - 1};
    }
    return lowest_from(bin + 1);
  }
  // The last of these that is not below key, or the first.
  template <typename T>
  [[nodiscard]] static uint32_t last_from(const T* first, size_t count, const FreeBlock& key) {
    const T* base = first;
    while (count > 1) {
      const size_t half = count / 2;
      base += is_below(base[half], key) ? 0 : half;
      count -= half;
    }
    return static_cast<uint32_t>(base - first);
  }
  static bool is_below(const FreeBlock& block, const FreeBlock& key) { return block < key; }
  static bool is_below(const Entry& entry, const FreeBlock& key) { return entry.first < key; }
  // The last run whose first block is not below key, or the first run.
  [[nodiscard]] static uint32_t run_for(const Bin& bin, const FreeBlock& key) {
    return last_from(bin.data(), bin.size(), key);
  }
  // Blocks that are not below key: they lead.
  [[nodiscard]] static uint32_t count_from(const Run& run, const FreeBlock& key) {
    const uint32_t last = last_from(run.blocks, run.count, key);
    return last + (last < run.count && !(run.blocks[last] < key) ? 1 : 0);
  }
  [[nodiscard]] Run* new_run();
  void store(const FreeBlock& block);
  void erase_stored(Cursor cursor);
  void split(Bin& bin, uint32_t run);
  void spread();

  FreeBlock newest_;
  bool has_newest_ = false;

  std::vector<Bin> bins_ = std::vector<Bin>(1);
  uint32_t bin_mask_ = 0;  // 0 while there is one bin
  std::array<uint64_t, kBinCount / 64> used_{};
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Run*> unused_runs_;
  size_t count_ = 0;  // in bins
};

}  // namespace vram::replay
