#include "serve/service_manager.hpp"

#include <charconv>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace vram::serve {

ServiceManager::ServiceManager(std::string_view socket, std::string_view watchdog_us)
    : socket_(socket) {
  int64_t period_us = 0;
  const char* const end = watchdog_us.data() + watchdog_us.size();
  const auto parsed = std::from_chars(watchdog_us.data(), end, period_us);
  if (parsed.ec == std::errc() && parsed.ptr == end && period_us > 0)
    watchdog_ = std::chrono::microseconds(period_us);
}

void ServiceManager::notify(std::string_view what) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';  // a name that is no file
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return;
  const size_t size = offsetof(sockaddr_un, sun_path) + socket_.size();
  (void)sendto(descriptor, what.data(), what.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size));
  (void)close(descriptor);
}

}  // namespace vram::serve
