#include "record/stacks/cpython.hpp"

#include <condition_variable>
#include <csignal>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>

namespace vram::record {
namespace {

template <typename Function>
bool look_up(Function** function, const char* name) {
  *function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  return *function != nullptr;
}

// A constant of the interpreter from 3.11 on: 0x030b00f0 is 3.11.0.
bool is_3_11() {
  const auto* version = static_cast<const unsigned long*>(dlsym(RTLD_DEFAULT, "Py_Version"));
  return version != nullptr && *version >> 16 == 0x030b;
}

}  // namespace

CPython CPython::find() {
  CPython found;
  const bool has_all =
      look_up(&found.is_initialized, "Py_IsInitialized") &&
      look_up(&found.this_thread, "PyGILState_GetThisThreadState") &&
      look_up(&found.ensure, "PyGILState_Ensure") &&
      look_up(&found.release, "PyGILState_Release") &&
      look_up(&found.frame_of, "PyThreadState_GetFrame") &&
      look_up(&found.back_of, "PyFrame_GetBack") && look_up(&found.code_of, "PyFrame_GetCode") &&
      look_up(&found.line_of, "PyFrame_GetLineNumber") &&
      look_up(&found.attribute, "PyObject_GetAttrString") &&
      look_up(&found.encode, "PyUnicode_AsEncodedString") &&
      look_up(&found.bytes_of, "PyBytes_AsString") && look_up(&found.size_of, "PyBytes_Size") &&
      look_up(&found.take_error, "PyErr_Fetch") && look_up(&found.set_error, "PyErr_Restore") &&
      look_up(&found.keep, "Py_IncRef") && look_up(&found.drop, "Py_DecRef");
  if (!has_all) return {};
  if (!look_up(&found.is_finalizing, "Py_IsFinalizing"))
    (void)look_up(&found.is_finalizing, "_Py_IsFinalizing");
  if (!look_up(&found.attached_thread, "PyThreadState_GetUnchecked"))
    (void)look_up(&found.attached_thread, "_PyThreadState_UncheckedGet");
  // With both, a frame is known by its code and instruction, and its line is worked out once.
  if (!look_up(&found.last_instruction_of, "PyFrame_GetLasti") ||
      !look_up(&found.line_at, "PyCode_Addr2Line")) {
    found.last_instruction_of = nullptr;
  }
  if (!is_3_11() || !look_up(&found.disable_collection, "PyGC_Disable") ||
      !look_up(&found.enable_collection, "PyGC_Enable")) {
    found.disable_collection = nullptr;
  }
  return found;
}

namespace {

constexpr std::chrono::seconds kSchedulingTime{1};  // where the machine is busy

enum class Step : uint8_t {
  kIdle,
  kAsked,
  kWaiting,    // for the GIL
  kTakenBack,  // and it still waits
  kWalking,
  kAnswered,
};

// The lock is held for a few instructions, never while anything is waited for.
struct Mailbox {
  std::mutex lock;
  std::condition_variable changed;
  Step step = Step::kIdle;
  bool has_thread = false;
  const CPython* python = nullptr;
  GilThread::Walk walk = nullptr;
  CPython::Object* thread = nullptr;
  StackId answer = 0;
};

// The child of a fork has neither the thread nor those that it answers.
Mailbox* mailbox = nullptr;  // NOLINT: set once, below, and in children
pthread_once_t mailbox_once = PTHREAD_ONCE_INIT;

void make_mailbox() {
  mailbox = new Mailbox;
  (void)pthread_atfork(nullptr, nullptr, [] { mailbox = new Mailbox; });
}

void move_to(Mailbox& at, Step step) {
  at.step = step;
  at.changed.notify_all();
}

[[gnu::noinline]] const CPython* wait_for_question(Mailbox& at) {
  std::unique_lock guard(at.lock);
  at.changed.wait(guard, [&] { return at.step == Step::kAsked; });
  move_to(at, Step::kWaiting);
  return at.python;
}

// The GIL is held. A frame of its own, so that serve() has nothing to destroy.
[[gnu::noinline]] void answer_question(Mailbox& at) {
  std::unique_lock guard(at.lock);
  if (at.step == Step::kWaiting) {
    at.step = Step::kWalking;
    guard.unlock();
    const StackId answer = at.walk(at.thread);
    guard.lock();
    at.answer = answer;
    move_to(at, Step::kAnswered);
  } else {
    move_to(at, Step::kIdle);
  }
}

// An interpreter that ends may end the thread in ensure(), by unwinding it: nothing is to be done
// here then, and no lock is held.
void* serve(void* at) {
  for (;;) {
    const CPython* python = wait_for_question(*static_cast<Mailbox*>(at));
    const int gil = python->ensure();
    answer_question(*static_cast<Mailbox*>(at));
    python->release(gil);
  }
}

// The program's signals are not this thread's to take.
bool start_thread(Mailbox& at) {
  sigset_t all;
  sigset_t before;
  (void)sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_t thread{};
  const bool has_begun = pthread_create(&thread, nullptr, serve, &at) == 0;
  (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (has_begun) (void)pthread_detach(thread);
  return has_begun;
}

}  // namespace

// The desk's thread sees a question as soon as it runs: the thread that has the GIL can't keep it
// from that.
StackId GilThread::request(const CPython& python, Walk walk, CPython::Object* thread,
                           std::chrono::milliseconds timeout) {
  (void)pthread_once(&mailbox_once, make_mailbox);
  Mailbox& at = *mailbox;
  std::unique_lock guard(at.lock);
  if (!at.has_thread) at.has_thread = start_thread(at);
  const auto is_free = [&] { return at.step == Step::kIdle || at.step == Step::kTakenBack; };
  // No thread waits twice for the same thread that has the GIL.
  if (!at.has_thread || !at.changed.wait_for(guard, timeout, is_free) ||
      at.step == Step::kTakenBack) {
    return 0;
  }
  at.python = &python;
  at.walk = walk;
  at.thread = thread;
  move_to(at, Step::kAsked);
  const auto is_seen = [&] { return at.step != Step::kAsked; };
  const auto is_answered = [&] { return at.step == Step::kAnswered; };
  if (!at.changed.wait_for(guard, kSchedulingTime, is_seen)) {
    move_to(at, Step::kIdle);
    return 0;
  }
  if (!at.changed.wait_for(guard, timeout, is_answered)) {
    if (at.step != Step::kWalking) {
      move_to(at, Step::kTakenBack);
      return 0;
    }
    at.changed.wait(guard, is_answered);
  }
  const StackId answer = at.answer;
  move_to(at, Step::kIdle);
  return answer;
}

}  // namespace vram::record
