#include "cli/top_loop.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/language.hpp"
#include "base/process_stat.hpp"
#include "cli/live.hpp"
#include "show/top/screen.hpp"
#include "watch/reclaim.hpp"
#include "watch/sources.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace vram::cli {
namespace {

using show::Style;
using show::top::RequestKind;

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr int kSecondMs = 1'000;
constexpr int kLateMs = 500;  // what a sample may take before the screen says so

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

// If a sample does not come, or is old, the screen says so each second.
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
      state_.show_message(trf("signal {} sent to {}", request.signal,
                              sent == 1 ? std::to_string(process.pid) : trf("{} processes", sent)));
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
                              ? tr("asked; waiting for the answers")
                              : tr("the last ones asked have not answered yet"));
      return true;
    case RequestKind::kRelease:
      sampler_.release();
      state_.show_message(tr("released the drivers; they are opened again in 30 s"));
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

namespace {

constexpr uint64_t kTimeoutNs = 10'000'000'000;

// Of those that still are who they were.
std::vector<uint32_t> pids_of(const watch::Reclaimable& found,
                              const std::vector<show::top::ProcessId>& processes) {
  std::vector<uint32_t> pids;
  for (const watch::Holder& holder : found.holders) {
    const show::top::ProcessId id = {holder.facts.pid, holder.facts.start_ticks};
    if (std::ranges::count(processes, id) > 0 && holder.can_be_asked()) pids.push_back(id.pid);
  }
  return pids;
}

std::string summary_of(const std::vector<watch::TrimAnswer>& answers, size_t named) {
  const auto answered = static_cast<size_t>(
      std::ranges::count(answers, watch::TrimOutcome::kAnswered, &watch::TrimAnswer::outcome));
  std::string text = trf("{} came back from {} of {} asked", format_bytes(watch::sum_of(answers)),
                         answered, answers.size());
  if (answered < answers.size())
    text += trf("; the others said nothing in {}", format_duration_ns(kTimeoutNs));
  if (answers.size() < named)
    text += trf("; {} can't be asked: no status page (vram.Board())", named - answers.size());
  return text;
}

std::string trim_processes(const watch::Snapshot& snapshot,
                           const std::vector<show::top::ProcessId>& processes) {
  watch::ProcessTable table;
  const watch::Reclaimable found = watch::find_reclaimable(snapshot, board_folders(), table);
  watch::TrimChoice choice;
  choice.pids = pids_of(found, processes);
  if (choice.pids.empty())
    return tr("it can't be asked: it has no status page (vram.Board()), or is another user's");
  const auto orders = watch::choose(found, choice);
  if (!orders) return orders.error().message;
  return summary_of(watch::request_trim(*orders, kTimeoutNs), processes.size());
}

}  // namespace

struct BackgroundTrim::State {
  State() : wake_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { (void)close(wake_fd); }

  int wake_fd;
  std::mutex mutex;  // guards what follows
  bool is_asking = false;
  std::optional<std::string> answer;
};

BackgroundTrim::BackgroundTrim() : state_(std::make_shared<State>()) {}

int BackgroundTrim::wake_fd() const { return state_->wake_fd; }

bool BackgroundTrim::start(std::shared_ptr<const watch::Sampled> seen,
                           std::vector<show::top::ProcessId> processes) {
  const std::lock_guard guard(state_->mutex);
  if (std::exchange(state_->is_asking, true)) return false;
  std::thread([state = state_, seen = std::move(seen), processes = std::move(processes)] {
    std::string answer = trim_processes(seen->snapshot, processes);
    const std::lock_guard answering(state->mutex);
    state->answer = std::move(answer);
    state->is_asking = false;
    const uint64_t one = 1;
    (void)!write(state->wake_fd, &one, sizeof one);
  }).detach();
  return true;
}

std::optional<std::string> BackgroundTrim::take_answer() {
  uint64_t count = 0;
  (void)!read(state_->wake_fd, &count, sizeof count);
  const std::lock_guard guard(state_->mutex);
  return std::exchange(state_->answer, std::nullopt);
}

namespace {

using show::top::ProcessId;

bool was_started_as(const ProcessId& process) {
  const std::string path = fmt::format("/proc/{}/stat", process.pid);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  const ssize_t length = file.number() < 0 ? -1 : read(file.number(), text.data(), text.size());
  if (length <= 0) return false;
  const auto stat = parse_process_stat({text.data(), static_cast<size_t>(length)});
  return stat && process.start_ticks == stat->start_ticks;
}

tl::unexpected<Error> refused(const ProcessId& process, int error) {
  if (error == ESRCH) return fail(Code::kNotFound, "process {} has ended already", process.pid);
  if (error == EPERM)
    return fail(Code::kIo, "process {} is another user's: only its user and root may signal it",
                process.pid);
  if (error == ENOSYS)
    return fail(Code::kIo, "this kernel can't hold on to a process (Linux 5.3 can): use kill {}",
                process.pid);
  return fail(Code::kIo, "process {}: {}", process.pid, std::strerror(error));
}

}  // namespace

Result<> signal_process(const ProcessId& process, int signal) {
  const Descriptor held(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (held.number() < 0) return refused(process, errno);
  if (!was_started_as(process)) {
    return fail(Code::kNotFound,
                "process {} has ended; its number is another's by now: no process was signalled",
                process.pid);
  }
  if (syscall(SYS_pidfd_send_signal, held.number(), signal, nullptr, 0) != 0)
    return refused(process, errno);
  return {};
}

}  // namespace vram::cli
