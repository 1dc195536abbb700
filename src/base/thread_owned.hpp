// ThreadOwned<T>: a large object of each thread, as a constinit thread_local variable. The object
// is on the heap, since libraries that are loaded late have little space for thread_local
// variables, and is created at its first use. It is destroyed after the thread's other thread_local
// variables (base/thread_end.hpp), whose destructors may still use it; afterwards the result is
// nullptr.
#pragma once

#include "base/thread_end.hpp"

#include <utility>

namespace vram {

template <typename T>
class ThreadOwned {
 public:
  constexpr ThreadOwned() = default;
  ThreadOwned(const ThreadOwned&) = delete;
  ThreadOwned& operator=(const ThreadOwned&) = delete;
  // No destructor: see thread_end.hpp.

  [[nodiscard]] T* get() { return value_ != nullptr ? value_ : make(); }
  // Returns nullptr if the object has not been created.
  [[nodiscard]] T* peek() const { return value_; }

 private:
  T* make() {
    if (hook_.run == nullptr) {
      hook_ = {.run = &end, .argument = this};
      if (at_thread_end(hook_)) value_ = new T;
    }
    return value_;
  }
  static void end(void* self) {
    delete std::exchange(static_cast<ThreadOwned*>(self)->value_, nullptr);
  }

  T* value_ = nullptr;
  ThreadEndHook hook_;
};

}  // namespace vram
