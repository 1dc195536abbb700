// Waits with a deadline, so that a test fails with a message instead of hanging.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <sys/types.h>
#include <sys/wait.h>
#include <thread>

namespace vram {

inline constexpr std::chrono::seconds kWaitLimit{60};  // a machine may be busy

// Returns whether holds() becomes true within the limit. Calls it again after each pause; with a
// pause of 0, as often as possible.
//
//   ASSERT_TRUE(eventually([&] { return begun == 1; })) << "no request was handled";
template <typename Holds>
[[nodiscard]] bool eventually(const Holds& holds, std::chrono::milliseconds limit = kWaitLimit,
                              std::chrono::milliseconds pause = std::chrono::milliseconds(1)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (pause.count() > 0)
      std::this_thread::sleep_for(pause);
    else
      std::this_thread::yield();
  }
  return true;
}

// The status, as waitpid() gives it, of a child that ends by itself. One that is still running when
// the limit is reached is killed, and the test fails.
inline int status_of_child(pid_t child) {
  int status = -1;
  const bool has_ended = eventually([&] { return waitpid(child, &status, WNOHANG) != 0; });
  if (!has_ended) {
    ADD_FAILURE() << "child process " << child << " still ran after " << kWaitLimit.count()
                  << " s: killed";
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
  }
  return status;
}

}  // namespace vram
