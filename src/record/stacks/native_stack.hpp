// The native stack of the calling thread, by the unwinding tables that C++ exceptions use; about a
// microsecond a frame. Capturing takes no lock that a thread holds while it runs code of others:
// not that of dlopen and dladdr, which is held while libraries are initialized.
#pragma once

#include "record/signal_guard.hpp"
#include "record/stores.hpp"

namespace vram::record {

class NativeStacks {
 public:
  static constexpr size_t kMaxFrames = 64;

  // Makes the tables. A child that is forked while another thread makes them could never do so:
  // before threads take stacks.
  static void prepare();
  // Without vram's own frames.
  [[nodiscard]] static StackId capture();
  // The function's name, demangled, where its library exports it; else an offset in the library.
  // "?" for a number that is not of a native frame. Waits for dlopen: for the flusher alone.
  [[nodiscard]] static FrameText describe(FrameNumber frame);
};

// A mutex that a fork waits for, so that the data it guards is consistent in the child, too. Never
// block while holding it. Its objects are never destroyed.

class ForkLock {
 public:
  ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  // From now on forks wait for all of them. Handlers that run before a fork run in the reverse
  // order: call it before those that wait for a thread which may make such a lock.
  static int watch_forks();

 private:
  static void lock_all();
  static void unlock_all();
  TableLock mutex_;
  ForkLock* next_ = nullptr;
};

// Describes frame numbers. Python and native frames are numbered separately, since a file may
// contain both kinds: native stacks if Python's could not be captured in time, and stacks captured
// before a recording of another kind started.

inline constexpr FrameNumber kNativeFrame = FrameNumber{1} << 31;  // set in numbers of native ones

// "?" for an unknown number.
[[nodiscard]] FrameText describe_frame(FrameNumber frame);

}  // namespace vram::record
