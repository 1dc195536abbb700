// at_thread_end(): work for the end of the calling thread, done after the destructors of its
// thread_local variables, so that what those still do finds everything in place.
//
// A destructor of a thread_local variable can't say "this has ended" in its own members: stores to
// an object whose life ends are dead, and compilers remove them. So what a thread owns is kept in
// thread_local variables that are trivially destructible, and live as long as the thread's memory;
// a hook takes them apart.
#pragma once

namespace vram {

// Lies in memory that lives as long as the thread: a thread_local variable without a destructor.
struct ThreadEndHook {
  void (*run)(void* argument) = nullptr;
  void* argument = nullptr;
  ThreadEndHook* next = nullptr;
};

// Hooks run once, the last one first. False: the thread has come to its hooks already, or the
// system has no key for them; this one will not run. Allocates nothing.
[[nodiscard]] bool at_thread_end(ThreadEndHook& hook);

}  // namespace vram
