// Jobs: work that a client requested and that takes seconds, such as asking a process for memory.
// Each job has a thread of its own; clients read later what came of it. May be used from any
// thread.
//
//     POST ─▶ start() ─▶ a thread ─▶ result ─▶ json() ─▶ GET
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "base/threads.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace vram::serve {

class Jobs {
 public:
  static constexpr size_t kMaxRunning = 4;
  static constexpr size_t kKept = 50;
  // What the job is to return as its result. Must own what it uses.
  using Work = std::function<Result<Json>()>;

  explicit Jobs(std::function<int64_t()> now_unix_ns) : now_unix_ns_(std::move(now_unix_ns)) {}

  // Returns the job's number. kIo: too many are running, or the system refuses to start a thread.
  [[nodiscard]] Result<uint64_t> start(std::string_view kind, Json request, Work work);
  // vram.jobs/1: the newest first.
  [[nodiscard]] std::string json() const;
  // False: one is still running; it is left behind.
  [[nodiscard]] bool end(std::chrono::milliseconds timeout);

 private:
  struct Job {
    uint64_t number = 0;
    std::string kind;
    Json request;
    int64_t started_unix_ns = 0;
    int64_t ended_unix_ns = 0;  // 0: it is running
    Json result = {};
    std::string error = {};
  };
  struct State {
    mutable std::mutex mutex;
    std::list<Job> jobs;  // the newest first
    uint64_t next_number = 1;
    size_t running = 0;
  };

  std::function<int64_t()> now_unix_ns_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::mutex threads_mutex_;
  std::list<DetachableThread> threads_;
};

}  // namespace vram::serve
