// The functions of CPython that reading a stack takes, found in the running process. Opaque types:
// nothing here depends on the interpreter's version but which of the functions there are.
#pragma once

#include "record/record.hpp"

#include <chrono>
#include <cstddef>

namespace vram::record {

struct CPython {
  using Object = void;

  int (*is_initialized)() = nullptr;
  int (*is_finalizing)() = nullptr;    // may be absent
  Object* (*this_thread)() = nullptr;  // PyGILState_GetThisThreadState: nullptr where none
  // The thread state that is attached; nullptr: none. May be absent. Does not check anything.
  Object* (*attached_thread)() = nullptr;
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  Object* (*frame_of)(Object* thread) = nullptr;
  Object* (*back_of)(Object* frame) = nullptr;
  Object* (*code_of)(Object* frame) = nullptr;
  int (*line_of)(Object* frame) = nullptr;
  int (*last_instruction_of)(Object* frame) = nullptr;  // from 3.11
  int (*line_at)(Object* code, int instruction) = nullptr;
  Object* (*attribute)(Object* object, const char* name) = nullptr;
  // Encodes a text to bytes with a codec; `errors` selects how to treat what it cannot encode.
  Object* (*encode)(Object* text, const char* codec, const char* errors) = nullptr;
  const char* (*bytes_of)(Object* bytes) = nullptr;
  ptrdiff_t (*size_of)(Object* bytes) = nullptr;
  void (*take_error)(Object** type, Object** value, Object** traceback) = nullptr;
  void (*set_error)(Object* type, Object* value, Object* traceback) = nullptr;
  // Both or none: of the one version (3.11) in which making a frame's object may collect garbage.
  int (*disable_collection)() = nullptr;
  int (*enable_collection)() = nullptr;
  void (*keep)(Object* object) = nullptr;
  void (*drop)(Object* object) = nullptr;

  // Finds Python's functions in this process; is_complete() is false if it has no Python.
  [[nodiscard]] static CPython find();
  [[nodiscard]] bool is_complete() const { return drop != nullptr; }
};

// GilThread: a thread that takes the GIL on behalf of another thread, which must not wait for it
// without a limit: it may hold a lock that the GIL's owner waits for, and CPython cannot try to
// lock. So a thread requests, waits for a limited time, and withdraws its request; its stack is
// read only if the GIL was available in time, while it still waits.
class GilThread {
 public:
  using Walk = StackId (*)(CPython::Object* thread);

  // walk(thread) in the other thread, with the GIL; 0: not in time. The calling thread's state is
  // `thread`, and it does not hold the GIL. Waits for other requests and for the GIL, for
  // `timeout` each.
  [[nodiscard]] static StackId request(const CPython& python, Walk walk, CPython::Object* thread,
                                       std::chrono::milliseconds timeout);
};

}  // namespace vram::record
