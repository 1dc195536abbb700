#include "watch/life_watch.hpp"

#include <cerrno>
#include <filesystem>
#include <limits>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram::watch {
namespace {

// By hand: it is newer than the headers that wheels are built with.
constexpr long kPidfdOpen = 434;  // on every architecture

// The other half is for files and for whoever listens.
bool is_room_for(size_t descriptors) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && descriptors <= limit.rlim_cur / 2;
}

}  // namespace

LifeWatch::~LifeWatch() {
  for (const pollfd& each : asked_) close(each.fd);
}

bool LifeWatch::can_ask() {
  if (!can_ask_) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink(root_ + "/self", error);
    can_ask_ = root_ == "/proc" && !error && self == std::to_string(getpid());
  }
  return *can_ask_;
}

LifeWatch::Added LifeWatch::add(uint32_t pid) {
  if (!can_ask()) return Added::kNo;
  if (pid == 0 || pid > static_cast<uint32_t>(std::numeric_limits<pid_t>::max()))
    return Added::kNobody;
  if (!is_room_for(pids_.size() + 1)) return Added::kNo;
  const long descriptor = syscall(kPidfdOpen, static_cast<pid_t>(pid), 0U);
  if (descriptor < 0) {
    if (errno == ENOSYS || errno == EPERM) can_ask_ = false;  // too old, or a sandbox's rule
    return errno == ESRCH ? Added::kNobody : Added::kNo;
  }
  asked_.push_back({.fd = static_cast<int>(descriptor), .events = POLLIN, .revents = 0});
  pids_.push_back(pid);
  return Added::kYes;
}

std::optional<std::vector<uint32_t>> LifeWatch::take_ended() {
  std::vector<uint32_t> ended;
  const int count = poll(asked_.data(), asked_.size(), 0);
  if (count < 0) return std::nullopt;
  for (size_t place = count > 0 ? asked_.size() : 0; place-- > 0;) {
    if (asked_[place].revents == 0) continue;
    ended.push_back(pids_[place]);
    drop(place);
  }
  return ended;
}

void LifeWatch::keep_only(const std::function<bool(uint32_t)>& is_kept) {
  for (size_t place = asked_.size(); place-- > 0;) {
    if (!is_kept(pids_[place])) drop(place);
  }
}

void LifeWatch::drop(size_t place) {
  close(asked_[place].fd);
  asked_[place] = asked_.back();
  pids_[place] = pids_.back();
  asked_.pop_back();
  pids_.pop_back();
}

}  // namespace vram::watch
