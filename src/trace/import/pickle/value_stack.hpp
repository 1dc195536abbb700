// ValueStack: the machine's stack. Its capacity is ensured once for a whole window of input (no
// opcode pushes more than one value for each of its bytes), so a push is two stores. Unused
// capacity takes no memory. Use it from one thread.
#pragma once

#include "trace/import/pickle/value.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>

namespace vram::trace::pickle {

class ValueStack {
 public:
  ValueStack() = default;
  ValueStack(const ValueStack&) = delete;
  ValueStack& operator=(const ValueStack&) = delete;
  ~ValueStack() { std::free(values_); }

  // Pointers into the stack are void afterwards.
  void make_room(size_t pushes) {
    if (capacity_ - size_ >= pushes) return;
    const size_t capacity = (size_ + pushes) * 2;
    void* moved = std::realloc(static_cast<void*>(values_), capacity * sizeof(Value));
    if (moved == nullptr) throw std::bad_alloc();
    values_ = static_cast<Value*>(moved);
    capacity_ = capacity;
  }
  // There is room.
  void push(const Value& value) { values_[size_++] = value; }
  // For several pushes: store at top() and after it, within the capacity, then set the new top.
  [[nodiscard]] Value* top() { return values_ + size_; }
  void set_top(const Value* top) { size_ = static_cast<size_t>(top - values_); }
  void truncate(size_t size) { size_ = size; }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] Value& operator[](size_t i) { return values_[i]; }
  [[nodiscard]] const Value& back() const { return values_[size_ - 1]; }
  [[nodiscard]] Value& back() { return values_[size_ - 1]; }
  [[nodiscard]] std::span<const Value> from(size_t first) const {
    return {values_ + first, size_ - first};
  }

 private:
  Value* values_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace vram::trace::pickle
