#include "watch/life_watch.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <span>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace vram::watch {
namespace {

// By hand: it is newer than the headers that wheels are built with.
constexpr long kPidfdOpen = 434;  // on every architecture

// The other half is for files and for connections.
bool is_room_for(size_t descriptors) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && descriptors <= limit.rlim_cur / 2;
}

}  // namespace

bool LifeWatch::can_request() {
  if (!can_request_) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink(root_ + "/self", error);
    can_request_ = root_ == "/proc" && !error && self == std::to_string(getpid());
  }
  return *can_request_;
}

LifeWatch::Added LifeWatch::add(uint32_t pid) {
  if (!can_request()) return Added::kNo;
  if (pid == 0 || pid > static_cast<uint32_t>(std::numeric_limits<pid_t>::max()))
    return Added::kNobody;
  if (!is_room_for(watched_.size() + 1)) return Added::kNo;
  Descriptor process(static_cast<int>(syscall(kPidfdOpen, static_cast<pid_t>(pid), 0U)));
  if (!process.is_open()) {
    if (errno == ENOSYS || errno == EPERM) can_request_ = false;  // too old, or a sandbox's rule
    return errno == ESRCH ? Added::kNobody : Added::kNo;
  }
  if (!listen_to(pid, process)) return Added::kNo;
  watched_.insert_or_assign(pid, std::move(process));
  return Added::kYes;
}

bool LifeWatch::listen_to(uint32_t pid, const Descriptor& process) {
  if (!epoll_.is_open()) epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = pid;
  return epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, process.number(), &event) == 0;
}

std::optional<std::vector<uint32_t>> LifeWatch::take_ended() {
  std::vector<uint32_t> ended;
  if (!epoll_.is_open()) return ended;
  std::array<epoll_event, 64> events{};
  int count = 0;
  do {
    count = epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), 0);
    if (count < 0) return std::nullopt;
    for (const epoll_event& event : std::span(events).first(static_cast<size_t>(count))) {
      ended.push_back(event.data.u32);
      forget(event.data.u32);
    }
  } while (static_cast<size_t>(count) == events.size());
  return ended;
}

void LifeWatch::keep_only(const std::function<bool(uint32_t)>& is_kept) {
  std::vector<uint32_t> gone;
  for (const auto& [pid, process] : watched_) {
    if (!is_kept(pid)) gone.push_back(pid);
  }
  for (const uint32_t pid : gone) forget(pid);
}

// Closing it would be enough if no child of this program could have a copy.
void LifeWatch::forget(uint32_t pid) {
  const auto watched = watched_.find(pid);
  (void)epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, watched->second.number(), nullptr);
  watched_.erase(watched);
}

}  // namespace vram::watch
