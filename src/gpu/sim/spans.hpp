// Spans: a value for each byte of [0, bytes), kept as the spans over which it is the same. A sorted
// vector: cheap for the some dozens of blocks that lie in one handle. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vram::gpu {

template <typename T>
class Spans {
 public:
  explicit Spans(uint64_t bytes) : bytes_(bytes) { spans_.push_back({0, T()}); }

  // visit(begin, end, value) for each span of the range; spans are split at its borders.
  template <typename Visit>
  void update(uint64_t begin, uint64_t end, Visit visit) {
    const size_t first = split(begin);
    const size_t last = split(end);
    for (size_t i = first; i < last; ++i) visit(spans_[i].begin, end_of(i), spans_[i].value);
  }
  // One value for all of the range.
  void assign(uint64_t begin, uint64_t end, T value) {
    const size_t first = split(begin);
    const size_t last = split(end);
    spans_[first].value = std::move(value);
    spans_.erase(spans_.begin() + static_cast<ptrdiff_t>(first) + 1,
                 spans_.begin() + static_cast<ptrdiff_t>(last));
  }
  [[nodiscard]] size_t size() const { return spans_.size(); }

 private:
  struct Span {
    uint64_t begin = 0;
    T value;
  };
  [[nodiscard]] uint64_t end_of(size_t i) const {
    return i + 1 < spans_.size() ? spans_[i + 1].begin : bytes_;
  }
  // The index of the span that begins there.
  size_t split(uint64_t at) {
    if (at == bytes_) return spans_.size();
    auto next = std::ranges::upper_bound(spans_, at, {}, &Span::begin);
    if (std::prev(next)->begin == at) return static_cast<size_t>(next - spans_.begin()) - 1;
    next = spans_.insert(next, {at, std::prev(next)->value});
    return static_cast<size_t>(next - spans_.begin());
  }

  uint64_t bytes_;
  std::vector<Span> spans_;
};

}  // namespace vram::gpu
