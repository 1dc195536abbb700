// Files that are read again when they change: secrets and certificates are rotated by programs that
// send no signal. They are looked at each second, by their number, size and time of change; links
// are followed, as Kubernetes swaps them.
//
// The first time all count as changed: what has happened since they were read is unknown.
#pragma once

#include "base/threads.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vram::serve {

struct WatchedFiles {
  std::function<std::vector<std::string>()> names;
  // Called when a file was replaced, appeared or disappeared. Both hooks are called on the watch's
  // thread, even after the watch's end if a file access hangs; so they must own what they use.
  std::function<void()> changed;
};

class FileWatch {
 public:
  explicit FileWatch(std::vector<WatchedFiles> watched,
                     std::chrono::milliseconds period = std::chrono::seconds(1));
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  // A thread that hangs in a file access is detached.
  ~FileWatch();

 private:
  struct State;
  std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace vram::serve
