// API endpoints of the history: a metric of each device over time, and the processes that held
// memory. Responses are read from the history's file, so they are made on the server's second
// thread while they are sent.
#pragma once

#include "serve/router.hpp"
#include "watch/history/history.hpp"
#include "watch/process_texts.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vram::serve {

// Without a history (null), responses say how to enable one. Command lines are filtered again,
// since the file may be from a time with other settings.
[[nodiscard]] std::vector<Route> history_routes(
    const std::shared_ptr<const watch::History>& history, const std::function<int64_t()>& now_ns,
    watch::CommandLines commands);
[[nodiscard]] bool is_about_history(const Request& request);

}  // namespace vram::serve
