// LiveSegments: the segments of processes while clients watch them. A request returns the newest
// list of a process at once, and asks the process for the next one, on a thread of its own. May be
// used from any thread.
//
//     POST ─▶ watch() ─▶ the newest list
//               └─▶ a thread ─▶ request_segments() ─▶ the list of the next watch()
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"
#include "serve/jobs.hpp"
#include "watch/segments_request.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace vram::serve {

class LiveSegments {
 public:
  // Processes whose lists are kept: those that were watched last.
  static constexpr size_t kMaxProcesses = 8;
  // Of a process; a list that is younger is returned without another request.
  static constexpr int64_t kMinPauseNs = kSignedSecondNs;
  using Ask = std::function<Result<watch::SegmentList>(uint32_t pid)>;

  // `now_ns` is the clock of SegmentList::taken_ns. `ask` may wait, and is called from any thread.
  LiveSegments(Ask ask, std::function<int64_t()> now_unix_ns, std::function<uint64_t()> now_ns)
      : ask_(std::move(ask)),
        now_unix_ns_(now_unix_ns),
        now_ns_(std::move(now_ns)),
        jobs_(std::move(now_unix_ns)) {}

  // vram.segments/1
  [[nodiscard]] std::string watch(uint32_t pid);
  // False: a request is still pending; its thread is left behind.
  [[nodiscard]] bool end(std::chrono::milliseconds timeout) { return jobs_.end(timeout); }

 private:
  struct Watched {
    bool is_asked = false;
    int64_t ended_unix_ns = 0;  // of the last request; 0: none has ended
    std::string list;           // the last that came, as text; empty: none
    std::string error;          // why the last request failed
    uint64_t turn = 0;          // of the last watch()
  };
  struct State {
    std::mutex mutex;
    std::map<uint32_t, Watched> processes;
    uint64_t turn = 0;
  };
  static void forget_oldest(State& state);
  void ask(uint32_t pid);

  Ask ask_;
  std::function<int64_t()> now_unix_ns_;
  std::function<uint64_t()> now_ns_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  Jobs jobs_;
};

}  // namespace vram::serve
