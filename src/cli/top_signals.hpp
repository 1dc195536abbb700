// The signals of vram top, taken as they come through a descriptor and not in the midst of
// something. Threads that begin later are spared them, too: make this before they do.
#pragma once

#include <csignal>

namespace vram::cli {

class TopSignals {
 public:
  TopSignals();
  TopSignals(const TopSignals&) = delete;
  TopSignals& operator=(const TopSignals&) = delete;
  ~TopSignals();

  [[nodiscard]] int fd() const { return fd_; }
  // The next that waits; 0: none does.
  [[nodiscard]] int next() const;

 private:
  int fd_ = -1;
  sigset_t before_{};
};

}  // namespace vram::cli
