// ThreadOwned<T>: something large that each thread has one of, as a constinit thread_local
// variable. It lies behind a pointer, since the room for the thread_local variables of libraries
// that are loaded late is scarce, and is made when it is first asked for. It is destroyed after the
// thread's other thread_local variables (base/thread_end.hpp), whose destructors may still use it;
// what asks later is answered nullptr.
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
  // nullptr where nobody has asked for it yet.
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
