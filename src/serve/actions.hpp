// API endpoints that change something, and those that report what can be changed and came of it:
// silences of alerts, requests to processes to release memory, to record themselves or to list
// their segments. The guard admits changes only from authenticated clients. Answers are made on the
// server's second thread; work that takes longer is a job.
#pragma once

#include "alerts/alert_engine.hpp"
#include "serve/api.hpp"
#include "serve/jobs.hpp"
#include "serve/live_segments.hpp"
#include "serve/router.hpp"
#include "watch/process_texts.hpp"
#include "watch/record_request.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vram::serve {

struct ActionSettings {
  SampleFeed feed;
  std::function<int64_t()> now_unix_ns;
  std::function<std::vector<std::string>()> board_folders;  // whose processes can be asked
  watch::CommandLines commands = watch::CommandLines::kName;
  std::string recordings = {};  // the folder for new recordings; empty: there is none
};

[[nodiscard]] std::vector<Route> silence_routes(
    const std::shared_ptr<alerts::AlertEngine>& alert_engine,
    const std::function<int64_t()>& now_unix_ns);
[[nodiscard]] std::vector<Route> action_routes(const ActionSettings& settings,
                                               const std::shared_ptr<Jobs>& jobs,
                                               const std::shared_ptr<LiveSegments>& segments);
// Whether the answer may wait for files: of the routes above.
[[nodiscard]] bool is_about_actions(const Request& request);

}  // namespace vram::serve
