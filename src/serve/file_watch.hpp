// Files that are read again when they change: secrets and certificates are rotated by programs that
// send no signal. They are looked at each second, by their number, size and time of change; links
// are followed, as Kubernetes swaps them.
//
// The first time all count as changed: nobody knows what has happened since they were read.
#pragma once

#include "base/detachable_thread.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vram::serve {

struct WatchedFiles {
  std::function<std::vector<std::string>()> names;
  // One of them is another one, is there or is gone. With `names` it is called on the watch's
  // thread, and may be after the watch's end while a file hangs: let them own what they use.
  std::function<void()> changed;
};

class FileWatch {
 public:
  explicit FileWatch(std::vector<WatchedFiles> watched,
                     std::chrono::milliseconds period = std::chrono::seconds(1));
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  // A thread that hangs in a file is left behind.
  ~FileWatch();

 private:
  struct State;
  std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace vram::serve
