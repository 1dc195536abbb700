#include "serve/file_watch.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <sys/stat.h>
#include <tuple>
#include <utility>

namespace vram::serve {
namespace {

using Signature = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;

// All zeros where there is no file.
Signature signature_of(const std::string& name) {
  struct stat found{};
  if (stat(name.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

std::vector<Signature> signatures_of(const WatchedFiles& files) {
  std::vector<Signature> signatures;
  for (const std::string& name : files.names()) signatures.push_back(signature_of(name));
  return signatures;
}

}  // namespace

struct FileWatch::State {
  std::vector<WatchedFiles> watched;
  std::chrono::milliseconds period;
  std::mutex mutex;  // guards has_ended
  std::condition_variable ended;
  bool has_ended = false;

  // False: the watch is over.
  bool sleep() {
    std::unique_lock lock(mutex);
    return !ended.wait_for(lock, period, [this] { return has_ended; });
  }

  void run() {
    std::vector<std::vector<Signature>> known;
    for (const WatchedFiles& each : watched) known.push_back(signatures_of(each));
    while (sleep()) {
      for (size_t i = 0; i < watched.size(); ++i) {
        auto found = signatures_of(watched[i]);
        if (found == known[i]) continue;
        known[i] = std::move(found);  // before: what changes meanwhile is seen the next time
        watched[i].changed();
      }
    }
  }
};

FileWatch::FileWatch(std::vector<WatchedFiles> watched, std::chrono::milliseconds period)
    : state_(std::make_shared<State>()),
      thread_([state = state_, watched = std::move(watched), period]() mutable {
        state->watched = std::move(watched);
        state->period = period;
        state->run();
      }) {}

FileWatch::~FileWatch() {
  constexpr auto kTimeout = std::chrono::milliseconds(500);
  {
    const std::lock_guard guard(state_->mutex);
    state_->has_ended = true;
    state_->ended.notify_all();
  }
  (void)thread_.join_for(kTimeout);
}

}  // namespace vram::serve
