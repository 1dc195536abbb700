// Serving: runs vram serve; combines sampler, HTTP server, log and signals.
//
//     Live ─▶ Sampler ─┬─▶ SampleFeed ─▶ routes ─▶ Guard ─▶ HttpServer ─▶ clients
//                      ├─▶ History
//                      └─▶ the main thread: rules, the log
//
// Threads: the sampler's, which alone waits for drivers and has capabilities, if any; the server's
// four; one that watches files; those of the history and of the receivers of alerts; the main
// one, which takes signals.
#pragma once

#include "base/result.hpp"
#include "cli/live.hpp"
#include "history/history.hpp"
#include "serve/guard.hpp"
#include "serve/log.hpp"
#include "serve/target.hpp"
#include "watch/process_texts.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::cli {

// A receiver of alerts.
struct ReceiverUrl {
  std::string option;
  std::string given;  // a URL, or @FILE
  std::string url;
};

struct ServeSettings {
  std::vector<serve::Address> addresses;
  std::chrono::nanoseconds period = std::chrono::seconds(1);
  LiveSource gpu;
  std::string token_file;                 // empty: no token
  std::shared_ptr<serve::WebAccess> web;  // null: plain HTTP
  std::vector<std::string> host_names;    // other names that clients use for it
  watch::CommandLines commands = watch::CommandLines::kName;
  bool dcgm_names = false;
  std::optional<uint32_t> process_series;
  std::string history;         // a file; empty: none
  bool needs_history = false;  // without it there is no serving
  history::HistoryKeep keep;
  std::string rules;
  std::vector<ReceiverUrl> webhooks;
  std::vector<ReceiverUrl> alertmanagers;
  std::string recordings;  // a folder; empty: none
  serve::LogFormat log_format = serve::LogFormat::kText;
};

// Until it is asked to end. The exit code; an Error is one of the environment.
[[nodiscard]] Result<int> serve_until_stopped(const ServeSettings& settings,
                                              const std::string& token);

}  // namespace vram::cli
