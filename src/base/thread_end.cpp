#include "base/thread_end.hpp"

#include <climits>
#include <optional>
#include <pthread.h>
#include <utility>

namespace vram {
namespace {

struct HooksOfThread {
  ThreadEndHook* first = nullptr;
  int rounds = 0;
  bool have_run = false;
};
constinit thread_local HooksOfThread hooks_of_thread;

std::optional<pthread_key_t> hooks_key();

// The system calls the destructors of keys after those of thread_local variables, in rounds: as
// long as one of them has set a key again, though no more than so many. The hooks run in the last
// round but one, after most of what others do; the last is left to the sanitizers, which end there.
void run_hooks(void* mark) {
  HooksOfThread& mine = hooks_of_thread;
  if (++mine.rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1 &&
      pthread_setspecific(*hooks_key(), mark) == 0) {
    return;
  }
  mine.have_run = true;
  while (mine.first != nullptr) {
    const ThreadEndHook& hook = *std::exchange(mine.first, mine.first->next);
    hook.run(hook.argument);
  }
}

std::optional<pthread_key_t> hooks_key() {
  static const std::optional<pthread_key_t> key = [] {
    pthread_key_t made{};
    const bool is_made = pthread_key_create(&made, &run_hooks) == 0;
    return is_made ? std::optional(made) : std::nullopt;
  }();
  return key;
}

}  // namespace

bool at_thread_end(ThreadEndHook& hook) {
  HooksOfThread& mine = hooks_of_thread;
  if (mine.have_run) return false;
  if (mine.first == nullptr) {
    const auto key = hooks_key();
    if (!key || pthread_setspecific(*key, &mine) != 0) return false;
  }
  hook.next = std::exchange(mine.first, &hook);
  return true;
}

}  // namespace vram
