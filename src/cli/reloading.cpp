#include "cli/reloading.hpp"

#include <utility>

namespace vram::cli {

void reload_token(const std::string& file, serve::Token& token, serve::Log& log) {
  auto secret = serve::read_token(file);
  if (!secret)
    return log.write({.level = serve::LogLevel::kError,
                      .action = "reload-failed",
                      .message = log.trf("{}; the old token stays", secret.error().message)});
  if (token.replace(*std::move(secret)))
    log.write({.action = "reloaded",
               .message = std::string(log.tr("the token was read again: it is another one"))});
}

void reload_web(serve::WebAccess& web, serve::Log& log) {
  const auto done = web.reload();
  if (!done)
    return log.write(
        {.level = serve::LogLevel::kError,
         .action = "reload-failed",
         .message = log.trf("{}; the old certificates and users stay", done.error().message)});
  if (*done)
    log.write({.action = "reloaded",
               .message =
                   std::string(log.tr("certificates and users were read again: they are others"))});
}

std::vector<serve::WatchedFiles> rotated_files(const ServeSettings& settings,
                                               const std::shared_ptr<serve::Token>& token,
                                               const std::shared_ptr<serve::Log>& log) {
  std::vector<serve::WatchedFiles> watched;
  if (!settings.token_file.empty())
    watched.push_back(
        {[file = settings.token_file] { return std::vector{file}; },
         [file = settings.token_file, token, log] { reload_token(file, *token, *log); }});
  if (settings.web)
    watched.push_back({[web = settings.web] { return web->now()->files; },
                       [web = settings.web, log] { reload_web(*web, *log); }});
  return watched;
}

}  // namespace vram::cli
