#include "gpu/rocm/rocm_extras.hpp"

#include "gpu/drm/card.hpp"
#include "gpu/rocm/rocm_smi.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace vram::gpu::rocm {
namespace {

using Clock = std::chrono::steady_clock;
using Answers = std::map<std::string, drm::AmdExtra>;  // by PCI address

constexpr auto kShutdownTimeout = std::chrono::milliseconds(500);
constexpr uint32_t kRoundsToWait = 5;  // after the library did not open
constexpr uint32_t kRoundsToForget = 3;

// The library counts its users and keeps what it knows for all of them: one at a time has it.
class LibraryLock {
 public:
  [[nodiscard]] bool take() { return has_ = has_ || !is_taken.exchange(true); }
  void give_back() {
    if (std::exchange(has_, false)) is_taken = false;
  }

 private:
  inline static std::atomic<bool> is_taken{false};
  bool has_ = false;
};

std::vector<drm::Card> amd_cards(drm::Files& files, const std::string& sys) {
  std::vector<drm::Card> cards = drm::find_cards(files, sys);
  std::erase_if(cards, [](const drm::Card& card) { return card.driver != drm::Driver::kAmdgpu; });
  return cards;
}

}  // namespace

// Shared with the thread: the last of the two to end destroys it.
struct RocmExtras::State {
  explicit State(ExtrasOptions given) : options(std::move(given)) {}

  void run();
  [[nodiscard]] Answers query_all();
  [[nodiscard]] bool open(const std::vector<drm::Card>& cards);
  void close();
  // False: it is to end.
  [[nodiscard]] bool publish_and_wait(Answers round);

  const ExtrasOptions options;
  const Clock::time_point begin = Clock::now();

  // The thread's own.
  drm::Files files;
  LibraryLock turn;
  std::optional<RocmSmi> smi;
  std::vector<std::string> opened_for;  // the devices that there were
  uint32_t rounds_to_wait = 0;

  std::mutex mutex;  // guards what follows; never held while the library is called
  std::condition_variable changed;
  bool must_end = false;
  bool has_ended = false;
  std::optional<Clock::time_point> answered;
  Answers answers;
};

void RocmExtras::State::close() {
  smi.reset();
  turn.give_back();
}

bool RocmExtras::State::open(const std::vector<drm::Card>& cards) {
  std::vector<std::string> devices;
  for (const drm::Card& card : cards) devices.push_back(card.pci_id);
  if (smi && devices != opened_for) close();  // it counts its devices only when it starts
  if (smi) return true;
  if (rounds_to_wait > 0) {
    --rounds_to_wait;
    return false;
  }
  if (!turn.take()) return false;
  if (auto opened = RocmSmi::open(options.libraries)) {
    smi.emplace(*std::move(opened));
    opened_for = std::move(devices);
    return true;
  }
  close();
  rounds_to_wait = kRoundsToWait;
  return false;
}

Answers RocmExtras::State::query_all() {
  Answers round;
  const std::vector<drm::Card> cards = amd_cards(files, options.sys);
  const auto sleeps = [&](const drm::Card& card) { return drm::is_asleep(files, card); };
  if (cards.empty() || std::ranges::any_of(cards, sleeps)) {
    close();
    return round;
  }
  if (!open(cards)) return round;
  for (const drm::Card& card : cards) {
    if (!sleeps(card)) round.emplace(card.pci_id, smi->query(card.pci_id));
  }
  return round;
}

bool RocmExtras::State::publish_and_wait(Answers round) {
  std::unique_lock lock(mutex);
  answers = std::move(round);
  answered = Clock::now();
  changed.notify_all();
  return !changed.wait_for(lock, options.period, [this] { return must_end; });
}

void RocmExtras::State::run() {
  try {
    while (publish_and_wait(query_all())) {
    }
  } catch (...) {  // the library is C++, and its own exceptions may come through
  }
  close();
  const std::lock_guard guard(mutex);
  has_ended = true;
  changed.notify_all();
}

RocmExtras::RocmExtras(ExtrasOptions options)
    : state_(std::make_shared<State>(std::move(options))),
      thread_([state = state_] { state->run(); }) {}

RocmExtras::~RocmExtras() {
  {
    const std::lock_guard guard(state_->mutex);
    state_->must_end = true;
    state_->changed.notify_all();
  }
  (void)thread_.join_for(kShutdownTimeout);
}

drm::AmdExtra RocmExtras::of(const std::string& pci_id) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(lock, state_->begin + state_->options.timeout,
                             [this] { return state_->answered || state_->has_ended; });
  const auto known = state_->answers.find(pci_id);
  const auto oldest = Clock::now() - state_->options.period * kRoundsToForget;
  if (known == state_->answers.end() || *state_->answered < oldest) return {};
  return known->second;
}

std::unique_ptr<drm::AmdExtras> open_extras(const drm::Roots& roots) {
  if (roots.sys != drm::Roots{}.sys) return nullptr;
  return std::make_unique<RocmExtras>(ExtrasOptions{libraries(), roots.sys});
}

}  // namespace vram::gpu::rocm
