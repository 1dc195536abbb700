#include "watch/sampler.hpp"

#include "watch/sources.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace vram::watch {
namespace {

constexpr auto kTimeout = std::chrono::seconds(1);

}  // namespace

// Shared by the sampler and its thread: the last that ends takes it along.
struct Sampler::State {
  State(SamplerHooks given, std::chrono::nanoseconds every)
      : hooks(std::move(given)), wake_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), period(every) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { (void)close(wake_fd); }

  void run();
  void take_sample();
  // Until it is time for the next sample, or the end. True: go on.
  bool wait(std::chrono::steady_clock::time_point begin);

  SamplerHooks hooks;
  int wake_fd;
  std::atomic<uint64_t> sampling_since_ns{0};  // 0: no sample is being taken

  mutable std::mutex mutex;  // guards what follows; never held while a hook runs
  std::condition_variable changed;
  std::chrono::nanoseconds period;
  bool must_end = false;
  bool must_sample = false;
  bool must_release = false;
  std::shared_ptr<const Sampled> latest;
};

void Sampler::State::take_sample() {
  auto sampled = std::make_shared<Sampled>();
  sampled->begin_ns = monotonic_ns();
  sampling_since_ns = sampled->begin_ns;
  sampled->snapshot = hooks.take_sample();
  sampled->sample_duration_ns = monotonic_ns() - sampled->begin_ns;
  // No other thread replaces it.
  sampled->number = latest ? latest->number + 1 : 1;
  sampled->period_ns = latest ? sampled->begin_ns - latest->begin_ns : 0;
  hooks.seen(*sampled);
  sampling_since_ns = 0;
  {
    const std::lock_guard guard(mutex);
    latest = std::move(sampled);
  }
  const uint64_t one = 1;
  (void)!write(wake_fd, &one, sizeof one);
}

bool Sampler::State::wait(std::chrono::steady_clock::time_point begin) {
  std::unique_lock lock(mutex);
  while (!must_end && !must_sample) {
    if (std::exchange(must_release, false)) {
      lock.unlock();
      hooks.release();
      lock.lock();
      continue;
    }
    if (std::chrono::steady_clock::now() >= begin + period) break;
    changed.wait_until(lock, begin + period);
  }
  must_sample = false;
  return !must_end;
}

void Sampler::State::run() {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  do {
    take_sample();
    // From tick to tick; what was missed, or asked for between, is not made up for.
    std::unique_lock lock(mutex);
    const auto due = begin + period;
    lock.unlock();
    if (!wait(begin)) break;
    const auto now = Clock::now();
    begin = now < due || now > due + kTimeout / 20 ? now : due;
  } while (true);
}

Sampler::Sampler(SamplerHooks hooks, std::chrono::nanoseconds period)
    : state_(std::make_shared<State>(std::move(hooks), period)),
      thread_([state = state_] { state->run(); }) {}

Sampler::~Sampler() { end(); }

bool Sampler::end() {
  {
    const std::lock_guard guard(state_->mutex);
    state_->must_end = true;
    state_->changed.notify_all();
  }
  const bool hangs_already = overdue_ns() > 0;
  return thread_.join_for(hangs_already ? std::chrono::seconds(0) : kTimeout);
}

std::shared_ptr<const Sampled> Sampler::latest() const {
  const std::lock_guard guard(state_->mutex);
  return state_->latest;
}

int Sampler::wake_fd() const { return state_->wake_fd; }

uint64_t Sampler::overdue_ns() const {
  const uint64_t since_ns = state_->sampling_since_ns;
  if (since_ns == 0) return 0;
  const std::lock_guard guard(state_->mutex);
  const uint64_t took_ns = monotonic_ns() - since_ns;
  const auto period_ns = static_cast<uint64_t>(state_->period.count());
  return took_ns > period_ns ? took_ns - period_ns : 0;
}

void Sampler::set_period(std::chrono::nanoseconds period) {
  const std::lock_guard guard(state_->mutex);
  state_->period = period;
  state_->changed.notify_all();
}

void Sampler::sample_now() {
  const std::lock_guard guard(state_->mutex);
  state_->must_sample = true;
  state_->changed.notify_all();
}

void Sampler::release() {
  const std::lock_guard guard(state_->mutex);
  state_->must_release = true;
  state_->changed.notify_all();
}

}  // namespace vram::watch
