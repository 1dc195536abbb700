// AddressMap: a hash map from 64-bit addresses to 32-bit numbers, for hot paths. Open addressing
// with linear probing and backward-shift deletion: a lookup is one multiplication and usually one
// cache line. Not thread-safe; allocates only when it grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vram {

class AddressMap {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  AddressMap() : slots_(size_t{1} << kFirstBits) {}

  [[nodiscard]] size_t size() const { return used_; }

  // kNone when absent.
  [[nodiscard]] uint32_t find(uint64_t key) const {
    for (size_t i = home(key);; i = next(i)) {
      if (slots_[i].value == kNone || slots_[i].key == key) return slots_[i].value;
    }
  }

  // Returns the key's number, to read or set. For a new key it is kNone; set it before any other
  // call.
  [[nodiscard]] uint32_t& at(uint64_t key) {
    size_t i = home(key);
    while (slots_[i].value != kNone && slots_[i].key != key) i = next(i);
    if (slots_[i].value == kNone) {
      if ((used_ + 1) * kSparse > slots_.size()) {
        grow();
        return at(key);
      }
      ++used_;
      slots_[i].key = key;
    }
    return slots_[i].value;
  }

  // Adds or overwrites. `value` must not be kNone.
  void set(uint64_t key, uint32_t value) { at(key) = value; }

  void erase(uint64_t key) { (void)take(key); }

  // What find() answers, and no longer there.
  uint32_t take(uint64_t key) {
    size_t hole = home(key);
    while (slots_[hole].key != key || slots_[hole].value == kNone) {
      if (slots_[hole].value == kNone) return kNone;
      hole = next(hole);
    }
    const uint32_t value = slots_[hole].value;
    --used_;
    // Later entries of the same run move up, so that a lookup does not stop at the hole.
    for (size_t i = next(hole); slots_[i].value != kNone; i = next(i)) {
      if (distance(home(slots_[i].key), i) < distance(hole, i)) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole].value = kNone;
    return value;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t value = kNone;
  };
  static constexpr unsigned kFirstBits = 10;
  // Slots for each entry at least: runs stay so short that branches are foreseen.
  static constexpr size_t kSparse = 4;

  // Addresses are multiples of 512 or more; the product's high bits depend on all of theirs.
  [[nodiscard]] size_t home(uint64_t key) const {
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> shift_);
  }
  [[nodiscard]] size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  [[nodiscard]] size_t distance(size_t from, size_t to) const {
    return (to - from) & (slots_.size() - 1);
  }
  // A rare case: not inlined, so that its callers stay short.
  [[gnu::noinline]] void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    --shift_;
    used_ = 0;
    for (const Slot& slot : old) {
      if (slot.value != kNone) set(slot.key, slot.value);
    }
  }

  std::vector<Slot> slots_;
  unsigned shift_ = 64 - kFirstBits;
  size_t used_ = 0;
};

}  // namespace vram
