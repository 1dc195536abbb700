// LifeWatch: which of many processes have ended, by one call of the kernel for all of them instead
// of a file of each. Holds a descriptor a process (pidfd_open, Linux 5.3): while nothing is to be
// read from it, the pid is still that process's. The kernel keeps the list (epoll), so that a tick
// in which nobody ends costs the same however many there are.
//
//     add(pid), before anything else is read of it ──▶ take_ended(), once a tick
//
// One thread at a time; waits for nothing. Never holds more than half of the descriptors that this
// program may have.
#pragma once

#include "base/descriptor.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace vram::watch {

class LifeWatch {
 public:
  // `root`: where the process's files are read. The kernel can be asked only if its pids count as
  // the files' names do, so of a tree other than /proc, or a /proc of other pids, nothing is known.
  explicit LifeWatch(std::string root) : root_(std::move(root)) {}
  enum class Added : uint8_t {
    kYes,
    kNo,      // the kernel does not offer it, or there are too many
    kNobody,  // there is no such process
  };
  // A process that is not watched yet.
  [[nodiscard]] Added add(uint32_t pid);
  // Those that ended since the last call, which are watched no more. Nothing: the kernel did not
  // say, and nobody is known to live.
  [[nodiscard]] std::optional<std::vector<uint32_t>> take_ended();
  void keep_only(const std::function<bool(uint32_t)>& is_kept);
  [[nodiscard]] size_t size() const { return watched_.size(); }

 private:
  [[nodiscard]] bool can_request();
  [[nodiscard]] bool listen_to(uint32_t pid, const Descriptor& process);
  void forget(uint32_t pid);

  std::string root_;
  std::optional<bool> can_request_;                   // nothing: not tried yet
  Descriptor epoll_;                                  // epoll's; none: nobody was watched yet
  std::unordered_map<uint32_t, Descriptor> watched_;  // by pid
};

}  // namespace vram::watch
