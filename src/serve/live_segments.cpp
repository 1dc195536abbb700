#include "serve/live_segments.hpp"

#include "base/json.hpp"
#include "show/live/segments_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vram::serve {
namespace {

std::string text_of(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

std::string LiveSegments::watch(uint32_t pid) {
  const std::lock_guard guard(state_->mutex);
  Watched& watched = state_->processes[pid];
  watched.turn = ++state_->turn;
  if (!watched.is_asked && now_unix_ns_() - watched.ended_unix_ns >= kMinPauseNs) ask(pid);
  std::string document = fmt::format(
      R"({{"schema": "vram.segments/1", "pid": {}, "is_asked": {}, "error": {}, "list": {}}})"
      "\n",
      pid, watched.is_asked, text_of(watched.error.empty() ? Json() : json_text(watched.error)),
      watched.list.empty() ? "null" : watched.list);
  forget_oldest(*state_);
  return document;
}

// One that is asked stays: its answer is to find it.
void LiveSegments::forget_oldest(State& state) {
  while (state.processes.size() > kMaxProcesses) {
    auto oldest = state.processes.end();
    for (auto at = state.processes.begin(); at != state.processes.end(); ++at) {
      const bool is_older =
          oldest == state.processes.end() || at->second.turn < oldest->second.turn;
      if (!at->second.is_asked && is_older) oldest = at;
    }
    if (oldest == state.processes.end()) return;
    state.processes.erase(oldest);
  }
}

// With the lock held. If too many are asked at once, this one is asked at a later watch().
void LiveSegments::ask(uint32_t pid) {
  const auto answered = [ask = ask_, now_unix_ns = now_unix_ns_, now_ns = now_ns_,
                         pid]() -> Result<std::string> {
    try {  // no memory, or JSON's
      VRAM_TRY_ASSIGN(const auto list, ask(pid));
      const uint64_t now = now_ns();
      const auto age = static_cast<int64_t>(now - std::min(now, list.taken_ns));
      return text_of(show::json_segments(list, now_unix_ns() - age));
    } catch (const std::exception& exception) {
      return fail(Code::kIo, "{}", exception.what());
    }
  };
  const auto work = [state = state_, now_unix_ns = now_unix_ns_, pid, answered]() -> Result<Json> {
    auto text = answered();
    const std::lock_guard guard(state->mutex);
    Watched& watched = state->processes[pid];
    watched.is_asked = false;
    watched.ended_unix_ns = now_unix_ns();
    watched.error = text ? "" : text.error().message;
    if (text) watched.list = *std::move(text);
    return Json();
  };
  if (jobs_.start("segments", Json(), work)) state_->processes[pid].is_asked = true;
}

}  // namespace vram::serve
