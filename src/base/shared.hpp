// Shared<T>: an immutable value with several owners; a copy only increments a counter. For large
// values that often stay the same from one sample to the next. Never empty.
//
// As with std::shared_ptr, one object must be used by one thread at a time; objects that share a
// value may be used by different threads. Construction and edit() allocate; only T and the
// allocation can throw.
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

  // Makes this object's own copy and returns it, to be changed before the object is used again.
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
