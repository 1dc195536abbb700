#include "cli/background_trim.hpp"

#include "base/bytes.hpp"
#include "cli/live.hpp"
#include "watch/request_trim.hpp"

#include <algorithm>
#include <mutex>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace vram::cli {
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
  std::string text = fmt::format("{} came back from {} of {} asked",
                                 format_bytes(watch::sum_of(answers)), answered, answers.size());
  if (answered < answers.size())
    text += fmt::format("; the others said nothing in {}", format_duration_ns(kTimeoutNs));
  if (answers.size() < named)
    text += fmt::format("; {} can't be asked: no page on the board (vram.Board())",
                        named - answers.size());
  return text;
}

std::string trim_processes(const watch::Snapshot& snapshot,
                           const std::vector<show::top::ProcessId>& processes) {
  watch::ProcessTable table;
  const watch::Reclaimable found = watch::find_reclaimable(snapshot, board_folders(), table);
  watch::TrimChoice choice;
  choice.pids = pids_of(found, processes);
  if (choice.pids.empty())
    return "it can't be asked: it has no page on the board (vram.Board()), or is another user's";
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

}  // namespace vram::cli
