#include "base/thread_end.hpp"

#include <atomic>
#include <bit>
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

namespace {

std::atomic<uint64_t> taken{0};
std::atomic<uint32_t> shared{0};

class Holder {
 public:
  Holder() {
    uint64_t seen = taken.load(std::memory_order_relaxed);
    do {
      if (seen == ~uint64_t{0}) {
        number_ = shared.fetch_add(1, std::memory_order_relaxed) % kThreadNumbers;
        return;
      }
      number_ = static_cast<uint32_t>(std::countr_one(seen));
    } while (!taken.compare_exchange_weak(seen, seen | bit(), std::memory_order_relaxed));
    is_own_ = true;
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    if (is_own_) taken.fetch_and(~bit(), std::memory_order_relaxed);
  }
  [[nodiscard]] uint32_t number() const { return number_; }

 private:
  [[nodiscard]] uint64_t bit() const { return uint64_t{1} << number_; }
  uint32_t number_ = 0;
  bool is_own_ = false;
};

}  // namespace

namespace thread_numbers {

__attribute__((tls_model("initial-exec"))) constinit thread_local uint32_t own = 0;

uint32_t take() {
  thread_local const Holder holder;
  own = holder.number() + 1;
  return holder.number();
}

}  // namespace thread_numbers

}  // namespace vram
