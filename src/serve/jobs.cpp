#include "serve/jobs.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace vram::serve {

Result<uint64_t> Jobs::start(std::string_view kind, Json request, Work work) {
  uint64_t number = 0;
  {
    const std::lock_guard guard(state_->mutex);
    if (state_->running >= kMaxRunning)
      return fail(Code::kIo, "{} jobs are running: wait for one of them", kMaxRunning);
    number = state_->next_number++;
    ++state_->running;
    state_->jobs.push_front({.number = number,
                             .kind = std::string(kind),
                             .request = std::move(request),
                             .started_unix_ns = now_unix_ns_()});
    while (state_->jobs.size() > kKept && state_->jobs.back().ended_unix_ns != 0)
      state_->jobs.pop_back();
  }
  const std::lock_guard guard(threads_mutex_);
  threads_.remove_if([](DetachableThread& each) { return each.join_for({}); });
  auto thread = DetachableThread::start_in_background(
      [state = state_, number, work = std::move(work), now = now_unix_ns_] {
        Result<Json> result = [&]() -> Result<Json> {
          try {  // no memory, or JSON's
            return work();
          } catch (const std::exception& exception) {
            return fail(Code::kIo, "{}", exception.what());
          }
        }();
        const std::lock_guard locked(state->mutex);
        --state->running;
        const auto job = std::ranges::find(state->jobs, number, &Job::number);
        if (job == state->jobs.end()) return;
        job->ended_unix_ns = now();
        if (result)
          job->result = *std::move(result);
        else
          job->error = result.error().message;
      });
  if (!thread) {
    const std::lock_guard locked(state_->mutex);
    --state_->running;
    state_->jobs.remove_if([number](const Job& job) { return job.number == number; });
    return tl::unexpected(thread.error());
  }
  threads_.push_back(*std::move(thread));
  return number;
}

std::string Jobs::json() const {
  Json list = Json::array();
  const std::lock_guard guard(state_->mutex);
  for (const Job& job : state_->jobs) {
    const bool is_over = job.ended_unix_ns != 0;
    const std::string_view state = !is_over ? "running" : job.error.empty() ? "done" : "failed";
    list.push_back({{"number", job.number},
                    {"kind", job.kind},
                    {"state", state},
                    {"started_unix_ns", job.started_unix_ns},
                    {"ended_unix_ns", is_over ? Json(job.ended_unix_ns) : Json()},
                    {"request", job.request},
                    {"result", job.result},
                    {"error", job.error.empty() ? Json() : json_text(job.error)}});
  }
  const Json document = {{"schema", "vram.jobs/1"}, {"jobs", std::move(list)}};
  return document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

bool Jobs::end(std::chrono::milliseconds timeout) {
  const auto deadline = DetachableThread::Clock::now() + timeout;
  const std::lock_guard guard(threads_mutex_);
  bool have_ended = true;
  for (DetachableThread& each : threads_) have_ended = each.join_until(deadline) && have_ended;
  threads_.clear();
  return have_ended;
}

}  // namespace vram::serve
