// post_json() for https:// URLs, by libcurl: certificates are checked, proxies are those of curl's
// environment variables (HTTPS_PROXY, NO_PROXY), and redirects are not followed. Any thread.
#pragma once

#include "serve/notify/http_client.hpp"

namespace vram::serve::notify {

[[nodiscard]] Result<Answer> post_by_curl(const Target& target, std::string_view body,
                                          std::chrono::milliseconds at_most,
                                          const std::atomic<bool>& must_end);

}  // namespace vram::serve::notify
