// ThreadOwned<T>: something large that each thread has one of, as a thread_local variable. It lies
// behind a pointer, since the room for the thread_local variables of libraries that are loaded late
// is scarce, and is made when it is first asked for. What runs while the thread ends, after this
// was destroyed, is answered nullptr.
#pragma once

namespace vram {

template <typename T>
class ThreadOwned {
 public:
  ThreadOwned() = default;
  ThreadOwned(const ThreadOwned&) = delete;
  ThreadOwned& operator=(const ThreadOwned&) = delete;
  ~ThreadOwned() {
    delete value_;
    value_ = nullptr;
    has_ended_ = true;
  }

  [[nodiscard]] T* get() {
    if (value_ == nullptr && !has_ended_) value_ = new T;
    return value_;
  }
  // nullptr where nobody has asked for it yet.
  [[nodiscard]] T* peek() const { return value_; }

 private:
  T* value_ = nullptr;
  bool has_ended_ = false;
};

}  // namespace vram
