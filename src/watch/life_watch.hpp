// LifeWatch: finds out which of many processes have ended, with one system call for all of them.
// Holds a descriptor for each process (pidfd_open, Linux 5.3); while it is not readable, the pid
// still belongs to that process. The kernel keeps the list (epoll), so a tick in which no process
// ends has a constant cost.
//
//     add(pid), before anything else is read of it ──▶ take_ended(), once a tick
//
// Use it from one thread at a time; it does not block. It uses at most half of the descriptors that
// this program may have.
#pragma once

#include "base/file.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace vram::watch {

class LifeWatch {
 public:
  // `root`: where the process's files are read. The kernel's answer applies only if its pids equal
  // the names of the files; for a tree other than /proc, or a /proc of another pid namespace,
  // nothing is known.
  explicit LifeWatch(std::string root) : root_(std::move(root)) {}
  enum class Added : uint8_t {
    kYes,
    kNo,      // the kernel does not offer it, or there are too many
    kNobody,  // there is no such process
  };
  // A process that is not watched yet.
  [[nodiscard]] Added add(uint32_t pid);
  // Returns the processes that ended since the last call, and stops watching them. Nothing: the
  // kernel did not answer, so the state of all processes is unknown.
  [[nodiscard]] std::optional<std::vector<uint32_t>> take_ended();
  void keep_only(const std::function<bool(uint32_t)>& is_kept);
  [[nodiscard]] size_t size() const { return watched_.size(); }

 private:
  [[nodiscard]] bool can_request();
  [[nodiscard]] bool listen_to(uint32_t pid, const Descriptor& process);
  void forget(uint32_t pid);

  std::string root_;
  std::optional<bool> can_request_;  // nothing: not tried yet
  // The epoll instance; closed until the first add().
  Descriptor epoll_;
  std::unordered_map<uint32_t, Descriptor> watched_;  // by pid
};

}  // namespace vram::watch
