#include "watch/users.hpp"

#include "base/rights.hpp"
#include "base/text.hpp"

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <pwd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::watch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFirstBytes = 1024;
constexpr size_t kMaxBytes = size_t{1} << 20;

std::optional<std::string> name_of(uint32_t uid) {
  for (size_t bytes = kFirstBytes; bytes <= kMaxBytes; bytes *= 4) {
    std::vector<char> buffer(bytes);
    passwd entry{};
    passwd* found = nullptr;
    const int error = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    if (error == ERANGE) continue;
    if (error != 0 || found == nullptr) return std::nullopt;
    return printable(found->pw_name);
  }
  return std::nullopt;
}

}  // namespace

struct Users::Shared {
  struct Known {
    std::optional<std::string> name;
    Clock::time_point ask_again;  // the first answer has not come yet: the clock's beginning
    bool is_asked = false;        // now
  };

  UserSettings settings;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::unordered_map<uint32_t, Known> known;
  std::deque<uint32_t> questions;
  bool must_end = false;

  void run() {
    (void)drop_capabilities();  // the process may have more than a name needs
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return must_end || !questions.empty(); });
      if (must_end) return;
      answer(lock, questions.front());
    }
  }

  void answer(std::unique_lock<std::mutex>& lock, uint32_t uid) {
    questions.pop_front();
    lock.unlock();
    auto name = settings.ask(uid);
    lock.lock();
    Known& one = known[uid];
    one.ask_again = Clock::now() + (name ? settings.named_for : settings.nameless_for);
    if (name) one.name = std::move(name);  // else the directory may be away
    one.is_asked = false;
    changed.notify_all();
  }
};

Users::Users(UserSettings settings) : shared_(std::make_shared<Shared>()) {
  if (!settings.ask) settings.ask = name_of;
  period_start_ = Clock::now() - settings.timeout_period;
  shared_->settings = std::move(settings);
}

Users::Users(Users&&) noexcept = default;

Users::~Users() {
  constexpr auto kTimeout = std::chrono::milliseconds(100);
  if (!shared_) return;
  {
    const std::lock_guard guard(shared_->mutex);
    shared_->must_end = true;
    shared_->changed.notify_all();
  }
  if (thread_) (void)thread_->join_for(kTimeout);
}

std::optional<std::string> Users::name(uint32_t uid) {
  const auto now = Clock::now();
  std::unique_lock lock(shared_->mutex);
  Shared::Known& one = shared_->known[uid];  // stays where it is: none is ever taken out
  if (!one.is_asked && now >= one.ask_again) {
    one.is_asked = true;
    shared_->questions.push_back(uid);
    shared_->changed.notify_all();
  }
  if (!thread_) thread_.emplace([shared = shared_] { shared->run(); });
  if (one.ask_again == Clock::time_point()) {
    const UserSettings& settings = shared_->settings;
    if (now - period_start_ >= settings.timeout_period) period_start_ = now;
    shared_->changed.wait_until(lock, period_start_ + settings.timeout,
                                [&] { return !one.is_asked; });
  }
  return one.name;
}

}  // namespace vram::watch
