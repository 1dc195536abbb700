// PodVector<T>: a growing array of trivially copyable T, for millions of records. It grows with
// realloc, which remaps pages of large arrays instead of copying them, and never touches unused
// capacity: peak memory stays near size(), while std::vector would hold the old and the new copy.
// Not thread-safe; move-only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace vram {

template <typename T>
class PodVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PodVector() = default;
  PodVector(PodVector&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  PodVector& operator=(PodVector&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~PodVector() { std::free(data_); }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] T& operator[](size_t i) { return data_[i]; }
  [[nodiscard]] const T& operator[](size_t i) const { return data_[i]; }
  [[nodiscard]] T& back() { return data_[size_ - 1]; }
  [[nodiscard]] T* begin() { return data_; }
  [[nodiscard]] T* end() { return data_ + size_; }
  [[nodiscard]] const T* begin() const { return data_; }
  [[nodiscard]] const T* end() const { return data_ + size_; }
  [[nodiscard]] std::span<const T> span() const { return {data_, size_}; }

  void push_back(const T& value) {
    if (size_ == capacity_) {
      // `value` may be an element of the array that realloc moves.
      const T copy = value;
      reserve(capacity_ == 0 ? 64 : capacity_ * 2);
      data_[size_++] = copy;
      return;
    }
    data_[size_++] = value;
  }
  void append(const T* first, size_t count) {
    if (size_ + count > capacity_) reserve(std::max(size_ + count, capacity_ * 2));
    for (size_t i = 0; i < count; ++i) data_[size_ + i] = first[i];
    size_ += count;
  }
  // Room for count more elements, which the caller writes before anything reads them.
  [[nodiscard]] T* extend(size_t count) {
    if (size_ + count > capacity_) reserve(std::max(size_ + count, capacity_ * 2));
    size_ += count;
    return data_ + (size_ - count);
  }
  // New elements are value-initialised.
  void resize(size_t size) {
    if (size > capacity_) reserve(size);
    for (size_t i = size_; i < size; ++i) data_[i] = T{};
    size_ = size;
  }
  void truncate(size_t size) { size_ = size < size_ ? size : size_; }
  void reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    void* moved = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(moved);
    capacity_ = capacity;
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace vram
