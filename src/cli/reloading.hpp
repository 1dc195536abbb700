// What vram serve reloads while it runs: on SIGHUP, or when the files change. On an error, the old
// state is kept and the log has a message. May be called from any thread.
#pragma once

#include "cli/serving.hpp"
#include "serve/credentials.hpp"
#include "serve/file_watch.hpp"
#include "serve/log.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vram::cli {

void reload_token(const std::string& file, serve::Token& token, serve::Log& log);
void reload_web(serve::WebAccess& web, serve::Log& log);

// Secrets and certificates, which programs rotate that send no signal.
[[nodiscard]] std::vector<serve::WatchedFiles> rotated_files(
    const ServeSettings& settings, const std::shared_ptr<serve::Token>& token,
    const std::shared_ptr<serve::Log>& log);

}  // namespace vram::cli
