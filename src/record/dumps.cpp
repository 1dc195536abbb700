#include "record/dumps.hpp"

#include "record/signal_guard.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram::record {
namespace {

constexpr long kDumpPollNs = 500'000;

}  // namespace

bool Dumps::wait(uint64_t ticket, std::chrono::milliseconds timeout) const {
  using Clock = std::chrono::steady_clock;  // which a signal handler may read
  const auto end = Clock::now() + timeout;
  while (finished_.load(std::memory_order_acquire) < ticket) {
    if (Clock::now() >= end) return false;
    const timespec pause{0, kDumpPollNs};
    (void)nanosleep(&pause, nullptr);
  }
  return true;
}

std::optional<Dumps::Taken> Dumps::take() {
  const uint64_t requested = requested_.fetch_and(~kReasons, std::memory_order_acq_rel);
  if ((requested & kReasons) == 0) return std::nullopt;
  return Taken{static_cast<DumpReason>(std::countr_zero(requested)), requested / kOneTicket};
}

Dumps& dumps() {
  static Dumps& one = *new Dumps;  // never destroyed: a signal may come while the process ends
  return one;
}

namespace {

struct Handled {
  int signal = 0;
  struct sigaction first{};  // when the handler was installed
  // What the program has instead; never freed, since a handler may be using it.
  std::atomic<const struct sigaction*> before{nullptr};
  // The program's handler runs. If that calls this one, which it found when it was installed, what
  // this one found is next.
  std::atomic<bool> is_in_program{false};

  [[nodiscard]] const struct sigaction& next() const {
    return is_in_program.load() ? first : *before.load();
  }
};

// Crashes, then SIGTERM, then signals of the program's choice.
constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
std::array<Handled, NSIG> handled;  // NOLINT: a handler can have no other state
std::atomic<size_t> handled_count{0};
std::atomic<int> chosen_signal{0};
std::atomic<pid_t> enabled_in{0};  // the process whose flight recorder runs: this one or a parent
std::atomic<bool> is_resting{false};
std::atomic<pid_t> flusher_thread{0};

// gettid() is newer than the oldest C library that the portable wheels run with.
pid_t this_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

bool is_crash(int signal) { return std::ranges::find(kCrashes, signal) != kCrashes.end(); }

// It comes again as soon as its handler returns, and the system ends a process that ignores it.
bool is_fault(int signal, const siginfo_t* info) {
  return is_crash(signal) && signal != SIGABRT && info->si_code > 0;
}

// abort() sends the signal to its own thread, and does not return.
bool may_come_later(int signal, const siginfo_t* info) {
  return !is_crash(signal) || info->si_code == SI_USER;
}

Handled* find(int signal) {
  for (size_t i = 0; i < handled_count.load(std::memory_order_acquire); ++i)
    if (handled[i].signal == signal) return &handled[i];
  return nullptr;
}

bool has_function(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool is_ignored(const struct sigaction& action) {
  return !has_function(action) && action.sa_handler == SIG_IGN;
}

void call(const struct sigaction& action, int signal, siginfo_t* info, void* context) {
  if ((action.sa_flags & SA_SIGINFO) != 0)
    action.sa_sigaction(signal, info, context);
  else
    action.sa_handler(signal);
}

// What would have happened without this handler.
void go_on(Handled& entry, int signal, siginfo_t* info, void* context) {
  const struct sigaction& next = entry.next();
  if (has_function(next) && !is_crash(signal)) {
    const bool was_in_program = entry.is_in_program.exchange(true);
    call(next, signal, info, context);
    entry.is_in_program.store(was_in_program);
    return;
  }
  if (is_ignored(next) && !is_fault(signal, info)) return;
  (void)sigaction(signal, &next, nullptr);
  if (!is_fault(signal, info)) (void)raise(signal);  // what was sent does not come again
}

// Waits for the file, unless it is the flusher that would have to write it.
void request_and_wait(DumpReason reason) {
  const uint64_t ticket = dumps().request(reason);
  const bool must_wait = reason != DumpReason::kSignal && this_thread() != flusher_thread.load();
  if (must_wait) (void)dumps().wait(ticket, DumpSignals::kMaxWait);
}

DumpReason reason_of(int signal) {
  if (is_crash(signal)) return DumpReason::kCrash;
  return signal == SIGTERM ? DumpReason::kTerminated : DumpReason::kSignal;
}

void handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  Handled* const entry = find(signal);
  if (entry == nullptr) return;
  const struct sigaction& next = entry->next();
  const DumpReason reason = reason_of(signal);
  const bool is_request = reason == DumpReason::kSignal && chosen_signal.load() == signal;
  const bool has_effect = is_request || (reason != DumpReason::kSignal &&
                                         (!is_ignored(next) || is_fault(signal, info)));
  const pid_t enabled = enabled_in.load();
  if (enabled == getpid() && has_effect && !entry->is_in_program.load()) {
    if (may_come_later(signal, info) && SignalGuard::put_off(signal)) return;
    request_and_wait(reason);
  }
  errno = error;
  // The signal of the program's choice has no other purpose, unless it had a function.
  const bool is_done = is_request && (enabled != 0 || is_resting.load());
  if (!is_done || has_function(next)) go_on(*entry, signal, info, context);
}

void handle_number(int signal) { handle(signal, nullptr, nullptr); }

// Takes no more than what it replaces: a program that replaces it by signal(), and calls it, has
// only the signal's number.
struct sigaction own_action(int signal, const struct sigaction& replaced) {
  struct sigaction ours{};
  ours.sa_flags = SA_ONSTACK | SA_RESTART;
  if (is_crash(signal) || (replaced.sa_flags & SA_SIGINFO) != 0) {
    ours.sa_flags |= SA_SIGINFO;
    ours.sa_sigaction = &handle;
  } else {
    ours.sa_handler = &handle_number;
  }
  (void)sigemptyset(&ours.sa_mask);
  return ours;
}

bool is_own(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ? action.sa_sigaction == &handle
                                             : action.sa_handler == &handle_number;
}

void install_one(int signal) {
  if (signal == 0 || find(signal) != nullptr) return;
  const size_t count = handled_count.load();
  if (count == handled.size()) return;
  Handled& entry = handled[count];
  entry.signal = signal;
  if (sigaction(signal, nullptr, &entry.first) != 0) return;
  entry.before.store(&entry.first);
  handled_count.store(count + 1, std::memory_order_release);  // before the first can come
  const struct sigaction ours = own_action(signal, entry.first);
  (void)sigaction(signal, &ours, nullptr);
}

// Puts the handler back, before what has replaced it.
void install_again(int signal) {
  Handled* const entry = find(signal);
  struct sigaction found{};
  if (entry == nullptr || sigaction(signal, nullptr, &found) != 0 || is_own(found)) return;
  const struct sigaction ours = own_action(signal, found);
  auto* const before = new struct sigaction;
  (void)sigaction(signal, &ours, before);
  if (is_own(*before))
    delete before;
  else
    entry->before.store(before);
}

}  // namespace

bool DumpSignals::can_handle(int signal) {
  struct sigaction now{};
  return signal != SIGKILL && signal != SIGSTOP && sigaction(signal, nullptr, &now) == 0;
}

void DumpSignals::install(int on_request) {
  for (const int signal : kCrashes) install_one(signal);
  install_one(SIGTERM);
  install_one(on_request);
  if (reason_of(on_request) == DumpReason::kSignal) install_again(on_request);
  chosen_signal.store(on_request);
}

void DumpSignals::keep_installed() {
  if (enabled_in.load() == getpid()) install_again(SIGTERM);
}

void DumpSignals::set_enabled(bool is_enabled) {
  enabled_in.store(is_enabled ? getpid() : 0);
  is_resting.store(false);
}

void DumpSignals::rest() {
  is_resting.store(enabled_in.load() != 0);
  enabled_in.store(0);
}

void DumpSignals::note_flusher() { flusher_thread.store(this_thread()); }

}  // namespace vram::record
