// Users' names by uid. The lookup may use the network and take minutes if a directory is away, so a
// thread of its own does it: a caller waits a moment, and gets a late name in a later sample. A uid
// without a name is looked up again after a minute, a name after an hour. Use it from one thread at
// a time.
#pragma once

#include "base/threads.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vram::watch {

struct UserSettings {
  // May take as long as it likes, and longer than there are Users. Empty: the system is asked.
  std::function<std::optional<std::string>(uint32_t uid)> ask;
  // Callers wait for answers at most `timeout` in each `timeout_period`.
  std::chrono::milliseconds timeout{1'000};
  std::chrono::milliseconds timeout_period{60'000};
  std::chrono::milliseconds nameless_for{60'000};  // then it is asked again
  std::chrono::milliseconds named_for{3'600'000};
};

class Users {
 public:
  explicit Users(UserSettings settings = {});
  Users(Users&&) noexcept;
  Users& operator=(Users&&) = delete;
  ~Users();

  // Nothing: the number has no name here, or the answer has not come yet.
  [[nodiscard]] std::optional<std::string> name(uint32_t uid);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;          // the thread's, too, which may hang
  std::optional<DetachableThread> thread_;  // from the first question on
  std::chrono::steady_clock::time_point period_start_;
};

}  // namespace vram::watch
