// at_thread_end(): runs a hook at the end of the calling thread, after the destructors of its
// thread_local variables, so that these can still use everything.
//
// A destructor of a thread_local variable cannot store "this has ended" in its own members: such
// stores are dead, and compilers remove them. So the state of a thread is kept in thread_local
// variables with trivial destructors, which live as long as the thread's memory; a hook destroys
// the state.
#pragma once

#include <cstdint>
#include <utility>

namespace vram {

// Must be in memory that lives as long as the thread: a thread_local variable without a destructor.
struct ThreadEndHook {
  void (*run)(void* argument) = nullptr;
  void* argument = nullptr;
  ThreadEndHook* next = nullptr;
};

// Hooks run once, the last one first. Returns false if the thread is running its hooks already, or
// the system has no key for them; the hook is then not called. Allocates nothing.
[[nodiscard]] bool at_thread_end(ThreadEndHook& hook);

// ThreadOwned<T>: a large object of each thread, as a constinit thread_local variable. The object
// is on the heap, since libraries that are loaded late have little space for thread_local
// variables, and is created at its first use. It is destroyed after the thread's other thread_local
// variables, whose destructors may still use it; afterwards the result is nullptr.

template <typename T>
class ThreadOwned {
 public:
  constexpr ThreadOwned() = default;
  ThreadOwned(const ThreadOwned&) = delete;
  ThreadOwned& operator=(const ThreadOwned&) = delete;
  // No destructor: see above.

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

// thread_number(): a small number, unique among living threads as long as there are fewer than
// kThreadNumbers; further threads share numbers. A new thread reuses the number of one that ended,
// so that concurrent threads spread over any array indexed by it. May be called from any thread;
// takes no lock, allocates nothing.

inline constexpr uint32_t kThreadNumbers = 64;

namespace thread_numbers {

// The number plus 1; 0: not assigned yet. In the library's static block of thread-local storage,
// which is accessed without a call.
extern __attribute__((tls_model("initial-exec"))) constinit thread_local uint32_t own;
[[nodiscard]] uint32_t take();

}  // namespace thread_numbers

// Below kThreadNumbers.
[[nodiscard]] inline uint32_t thread_number() {
  return thread_numbers::own == 0 ? thread_numbers::take() : thread_numbers::own - 1;
}

}  // namespace vram
