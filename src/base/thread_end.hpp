// at_thread_end(): runs a hook at the end of the calling thread, after the destructors of its
// thread_local variables, so that these can still use everything.
//
// A destructor of a thread_local variable cannot store "this has ended" in its own members: such
// stores are dead, and compilers remove them. So the state of a thread is kept in thread_local
// variables with trivial destructors, which live as long as the thread's memory; a hook destroys
// the state.
#pragma once

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

}  // namespace vram
