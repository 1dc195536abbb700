// Shared<T>: a value that many hold and nobody changes, so that copying it is counting. For large
// values that stay the same from look to look. Never empty.
//
// As std::shared_ptr: one object is used by one thread at a time, objects that share a value by
// any number. Making one and edit() allocate; what throws is T and the allocation.
#pragma once

#include <memory>
#include <utility>

namespace vram {

template <typename T>
class Shared {
 public:
  Shared() : Shared(T()) {}
  Shared(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  // Moving is copying, so that what was moved from is not empty.
  Shared(const Shared&) = default;
  Shared& operator=(const Shared&) = default;
  ~Shared() = default;

  [[nodiscard]] const T& operator*() const { return *value_; }
  [[nodiscard]] const T* operator->() const { return value_.get(); }
  [[nodiscard]] bool is_same(const Shared& other) const { return value_ == other.value_; }

  // A copy of its own, to be changed before this object is used again.
  [[nodiscard]] T& edit() {
    auto copy = std::make_shared<T>(*value_);
    T& result = *copy;
    value_ = std::move(copy);
    return result;
  }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace vram
