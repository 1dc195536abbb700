// Sampler: samples the machine periodically on its own thread, so that no user interaction (a key,
// a scrape, Ctrl-C) waits for a driver.
//
//     take_sample() ──(sampler's thread, each period)──▶ Sampled ──▶ latest(), wake_fd()
//
// Any thread may call any function but the constructor and the destructor. A sample that hangs
// delays only the next sample: overdue_ns() reports for how long.
#pragma once

#include "base/threads.hpp"
#include "watch/snapshot.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace vram::watch {

// A sample, with its times.
struct Sampled {
  Snapshot snapshot;
  uint64_t number = 0;              // of the sample, from 1
  uint64_t begin_ns = 0;            // monotonic_ns() when it began
  uint64_t sample_duration_ns = 0;  // how long it took
  uint64_t period_ns = 0;           // since the start of the previous sample; 0: there was none
};

struct SamplerHooks {
  std::function<Snapshot()> take_sample;
  std::function<void()> release = [] {};  // closes all drivers
  // Called with each sample, on the sampler's thread, before other threads see it. Its duration
  // delays the next sample.
  std::function<void(const Sampled&)> seen = [](const Sampled&) {};
};

class Sampler {
 public:
  // Starts to sample immediately. The hooks are called on one thread, one at a time. They must own
  // what they use: a hanging sample may outlive the sampler.
  Sampler(SamplerHooks hooks, std::chrono::nanoseconds period);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();  // as end()

  // Stops sampling. Returns true if no hook is running or will be called. Returns false if a sample
  // hangs (it is overdue, or lasts for another second): its thread is detached and continues.
  bool end();

  // Nullptr before the first sample ends. Never waits.
  [[nodiscard]] std::shared_ptr<const Sampled> latest() const;
  // A descriptor that becomes readable when there is a new sample; reading 8 bytes resets it.
  [[nodiscard]] int wake_fd() const;
  // How much longer than the period the current sample has taken; 0: not overdue.
  [[nodiscard]] uint64_t overdue_ns() const;

  void set_period(std::chrono::nanoseconds period);
  // Samples now, without waiting for the end of the period.
  void sample_now();
  // Closes the drivers before the next sample; immediately if no sample is running.
  void release();

 private:
  struct State;
  std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace vram::watch
