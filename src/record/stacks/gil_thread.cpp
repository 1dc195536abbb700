#include "record/stacks/gil_thread.hpp"

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <pthread.h>

namespace vram::record {
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

// The child of a fork has neither the thread nor whom it answers.
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

// The desk's thread sees a question as soon as it runs: whoever has the GIL can't keep it from
// that.
StackId GilThread::request(const CPython& python, Walk walk, CPython::Object* thread,
                           std::chrono::milliseconds timeout) {
  (void)pthread_once(&mailbox_once, make_mailbox);
  Mailbox& at = *mailbox;
  std::unique_lock guard(at.lock);
  if (!at.has_thread) at.has_thread = start_thread(at);
  const auto is_free = [&] { return at.step == Step::kIdle || at.step == Step::kTakenBack; };
  // Nobody waits twice for the same thread that has the GIL.
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
