#include "cli/top_loop.hpp"

#include "cli/signal_process.hpp"
#include "show/top/screen.hpp"
#include "watch/sources.hpp"

#include <algorithm>
#include <array>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace vram::cli {
namespace {

using show::Style;
using show::top::RequestKind;

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr int kSecondMs = 1'000;
constexpr int kLateMs = 500;  // what a look may take before somebody wonders

watch::SamplerHooks hooks_of(const std::shared_ptr<Live>& live) {
  watch::SamplerHooks hooks;
  hooks.take_sample = [live] { return live->take_sample(); };
  hooks.release = [live] { live->release(); };
  return hooks;
}

}  // namespace

TopLoop::TopLoop(const std::shared_ptr<Live>& live, show::top::TopState state,
                 show::Terminal terminal)
    : state_(std::move(state)),
      terminal_(std::move(terminal)),
      sampler_(hooks_of(live), std::chrono::nanoseconds(state_.period_ns)) {}

// Whoever waits for a look that does not come, or sees an old one, is told so each second.
int TopLoop::timeout_ms() const {
  if (!shown_ || state_.is_paused) return kSecondMs;
  const uint64_t age_ms = (watch::monotonic_ns() - shown_->begin_ns) / kNsPerMs;
  const uint64_t period_ms = state_.period_ns / kNsPerMs;
  if (age_ms > period_ms) return kSecondMs;
  return static_cast<int>(period_ms - age_ms) + kLateMs;
}

int TopLoop::wait() const {
  std::array<pollfd, 4> sources = {pollfd{STDIN_FILENO, POLLIN, 0},
                                   {sampler_.wake_fd(), POLLIN, 0},
                                   {signals_.fd(), POLLIN, 0},
                                   {trim_.wake_fd(), POLLIN, 0}};
  const int ready = poll(sources.data(), sources.size(), timeout_ms());
  const bool has_left = (sources[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  return has_left ? -1 : ready;
}

void TopLoop::take_sample() {
  uint64_t count = 0;
  (void)!read(sampler_.wake_fd(), &count, sizeof count);
  if (state_.is_paused) return;
  shown_ = sampler_.latest();
  if (shown_) history_.add(*shown_);
}

void TopLoop::take_answer() {
  if (auto answer = trim_.take_answer()) state_.show_message(*std::move(answer), Style::kStrong);
}

bool TopLoop::take_signals() {
  while (const int signal = signals_.next()) {
    if (signal == SIGWINCH) {
      terminal_.resize();
    } else if (signal == SIGUSR1) {
      (void)execute({RequestKind::kRelease, {}, 0});
    } else if (signal == SIGTSTP) {
      terminal_.suspend();
    } else {
      return false;
    }
  }
  return true;
}

bool TopLoop::take_keys() {
  static const watch::Snapshot kNothing;
  for (const show::top::Event& event : terminal_.events()) {
    const watch::Snapshot& snapshot = shown_ ? shown_->snapshot : kNothing;
    if (!execute(show::top::handle(state_, {snapshot, history_, terminal_.size()}, event)))
      return false;
  }
  return true;
}

void TopLoop::signal_all(const show::top::Request& request) {
  size_t sent = 0;
  for (const show::top::ProcessId& process : request.processes) {
    if (const auto done = signal_process(process, request.signal); !done) {
      state_.show_message(done.error().message, Style::kBad);
    } else if (++sent == request.processes.size()) {
      state_.show_message(
          fmt::format("signal {} sent to {}", request.signal,
                      sent == 1 ? std::to_string(process.pid) : fmt::format("{} processes", sent)));
    }
  }
  sampler_.sample_now();
}

bool TopLoop::execute(const show::top::Request& request) {
  switch (request.kind) {
    case RequestKind::kNothing:
    case RequestKind::kPause:
      return true;
    case RequestKind::kQuit:
      return false;
    case RequestKind::kSampleNow:
      sampler_.sample_now();
      return true;
    case RequestKind::kSetPeriod:
      sampler_.set_period(std::chrono::nanoseconds(state_.period_ns));
      return true;
    case RequestKind::kSignal:
      signal_all(request);
      return true;
    case RequestKind::kTrim:
      state_.show_message(trim_.start(shown_, request.processes)
                              ? "asked; waiting for the answers"
                              : "the last ones asked have not answered yet");
      return true;
    case RequestKind::kRelease:
      sampler_.release();
      state_.show_message("released the drivers; they are opened again in 30 s");
      return true;
  }
  return true;
}

void TopLoop::draw() {
  const show::top::Clock clock = {watch::monotonic_ns(), sampler_.overdue_ns()};
  terminal_.show(show::top::draw(state_, history_, shown_.get(), clock,
                                 {terminal_.size(), terminal_.unicode(), false}));
}

void TopLoop::run() {
  do {
    take_sample();
    take_answer();
    draw();
    if (wait() < 0) break;
  } while (take_signals() && take_keys());
  terminal_.restore();
}

}  // namespace vram::cli
