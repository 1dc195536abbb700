// Sampler: looks at the machine again and again on a thread of its own, so that nothing the user
// touches (a key, a scrape, Ctrl-C) waits for a driver.
//
//     take_sample() ──(the sampler's thread, each period)──▶ Sampled ──▶ latest(), wake_fd(): any
//     thread
//
// Any thread may call everything but the constructor and the destructor. A look that hangs holds up
// the next look and nobody else: overdue_ns() tells how long already.
#pragma once

#include "base/detachable_thread.hpp"
#include "watch/snapshot.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace vram::watch {

// One look and what it took.
struct Sampled {
  Snapshot snapshot;
  uint64_t number = 0;              // of the look, from 1 on
  uint64_t begin_ns = 0;            // monotonic_ns() when it began
  uint64_t sample_duration_ns = 0;  // how long it took
  uint64_t period_ns = 0;           // since the look before began; 0: there was none
};

struct SamplerHooks {
  std::function<Snapshot()> take_sample;
  std::function<void()> release = [] {};  // lets go of all drivers
  // Told of each look, on the sampler's thread, before others see it. What it takes delays looks.
  std::function<void(const Sampled&)> seen = [](const Sampled&) {};
};

class Sampler {
 public:
  // Begins to look at once. The hooks are called on one thread, one at a time, and must stay good
  // after the sampler's end while a look hangs: let them own what they use.
  Sampler(SamplerHooks hooks, std::chrono::nanoseconds period);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();  // as end()

  // Looks no more. True: nothing runs, no hook is called any more. False: a look hangs (it is
  // overdue already, or goes on for another second) and is left behind; its thread goes on beside
  // whatever the caller does next.
  bool end();

  // Nothing before the first look has ended. Never waits.
  [[nodiscard]] std::shared_ptr<const Sampled> latest() const;
  // A descriptor that becomes readable when there is a new look; reading 8 bytes resets it.
  [[nodiscard]] int wake_fd() const;
  // How much longer than the period the look under way has taken; 0: all is well.
  [[nodiscard]] uint64_t overdue_ns() const;

  void set_period(std::chrono::nanoseconds period);
  // Looks now, without waiting for the period's end.
  void sample_now();
  // Lets go of the drivers before the next look, at once if none is under way.
  void release();

 private:
  struct State;
  std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace vram::watch
