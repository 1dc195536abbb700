// NewestRoom: of things that have numbers in the order of their making, the
// newest that has at least so much room. A tournament tree over the numbers:
// both calls take the logarithm of the largest. Not thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vram::gpu {

class NewestRoom {
 public:
  // Numbers begin with 1; what has no room any more is as if it had never been.
  void set(uint64_t number, uint64_t room) {
    if (number >= leaves_) grow(number + 1);
    size_t node = leaves_ + number;
    max_[node] = room;
    while (node > 1) {
      node /= 2;
      max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
    }
  }
  // 0 where none has.
  [[nodiscard]] uint64_t newest(uint64_t min_room) const {
    if (leaves_ == 0 || min_room == 0 || max_[1] < min_room) return 0;
    size_t node = 1;
    while (node < leaves_) node = 2 * node + (max_[2 * node + 1] >= min_room ? 1 : 0);
    return node - leaves_;
  }
  [[nodiscard]] uint64_t room_of(uint64_t number) const {
    return number < leaves_ ? max_[leaves_ + number] : 0;
  }

 private:
  void grow(uint64_t count) {
    const std::vector<uint64_t> old(max_.begin() + static_cast<std::ptrdiff_t>(leaves_),
                                    max_.end());
    leaves_ = std::bit_ceil(count);
    max_.assign(2 * leaves_, 0);
    std::ranges::copy(old, max_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (size_t node = leaves_ - 1; node > 0; --node)
      max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
  }
  size_t leaves_ = 0;
  std::vector<uint64_t> max_;  // of node n's leaves; its children are 2n and 2n + 1
};

}  // namespace vram::gpu
