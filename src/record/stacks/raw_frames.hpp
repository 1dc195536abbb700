// RawFrames: reads the chain of a Python thread's frames from the interpreter's own structures, a
// few ns for each frame; through CPython's functions, which make an object of each, it takes ten
// times as long. Knows the layouts of CPython 3.9 to 3.13 with a GIL; other versions, and an
// interpreter whose frames turn out to be different, are read through the functions alone.
#pragma once

#include "record/stacks/cpython.hpp"
#include "record/stacks/frame_chain.hpp"

#include <atomic>
#include <cstdint>
#include <span>

namespace vram::record {

// What a thread reads to recognize a stack, in one line of the processor's cache, as ForRecords.
// Set once.
struct alignas(64) ForStacks {
  std::atomic<bool> has_layout{false};
  FrameLayout layout{};
  std::atomic<int (*)()> is_initialized{nullptr};  // of CPython; nullptr: not looked for, or absent
  std::atomic<CPython::Object* (*)()> this_thread{nullptr};
};
inline constinit ForStacks for_stacks;

class RawFrames {
 public:
  // Finds out which interpreter runs.
  static void prepare();
  // The thread's frames stand still: it is this one, or waits. A number that depends on the code
  // and the instruction of each frame; 0: the layout is unknown. Two equal stacks have equal
  // numbers, for as long as their code lives, whatever `chain` is: a thread that has one needs less
  // time.
  [[nodiscard]] static uint64_t hash(const CPython::Object* thread, FrameChain& chain);
  // Whether the thread runs no Python code, for all that is known of the layout.
  [[nodiscard]] static bool has_none(const CPython::Object* thread);
  // Whether the frames have this code, innermost first, with others in between that the interpreter
  // does not show. If not, the layout is not what it was taken for, and is unknown from now on.
  [[nodiscard]] static bool confirm(const CPython::Object* thread,
                                    std::span<CPython::Object* const> codes);
};

}  // namespace vram::record
