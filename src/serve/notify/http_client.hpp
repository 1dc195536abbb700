// An HTTP client as small as telling somebody needs: one POST, one answer, a limit to how long it
// may take. https:// is spoken by libcurl (https_client). Redirects are not followed.
//
// Any thread; waits as long as the exchange does, and no longer than asked for, but for a host's
// name: the system's look-up can't be left before it ends.
#pragma once

#include "base/result.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

namespace vram::serve::notify {

// Where to post to. `shown` is for errors and logs: scheme, host and port. The rest of a receiver's
// URL is often its password, as with the webhooks of chat services.
struct Target {
  bool is_https = false;
  std::string host;
  std::string port;
  std::string path;           // with the query
  std::string authorization;  // the header's value; empty: none
  std::string shown;
  // `shown` and 16 bits of a hash of the whole URL: it tells two receivers on one host apart, and
  // says too little of a password to be worth guessing one by it.
  std::string key;
};

// "http://user:password@host:9093/prefix", or https://; a user's and password's %xx are decoded.
[[nodiscard]] Result<Target> parse_target(std::string_view url);
// The same; kUnsupported: it is https:// and there is no libcurl.
[[nodiscard]] Result<Target> usable_target(std::string_view url);

// Whether a text repeats a part of the address that is not shown: some servers answer with the path
// that they were asked for.
[[nodiscard]] bool repeats_secret(std::string_view text, const Target& target);

struct Answer {
  unsigned status = 0;
  std::string body;  // its beginning
};

// A connection that failed, an answer that is none or came too late, or a wish to end meanwhile are
// errors; any status is an answer.
[[nodiscard]] Result<Answer> post_json(const Target& target, std::string_view body,
                                       std::chrono::milliseconds at_most,
                                       const std::atomic<bool>& must_end);

}  // namespace vram::serve::notify
