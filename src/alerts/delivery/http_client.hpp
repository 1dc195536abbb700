// A minimal HTTP client: one POST, one response, a timeout. https:// uses libcurl (https_client).
// Does not follow redirects.
//
// May be called from any thread; returns within the timeout, except that the system's name lookup
// cannot be interrupted.
#pragma once

#include "base/result.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

namespace vram::alerts {

// Where to post to. `shown` is for errors and logs: scheme, host and port. The rest of a receiver's
// URL is often its password, as with the webhooks of chat services.
struct ReceiverUrl {
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
[[nodiscard]] Result<ReceiverUrl> parse_receiver_url(std::string_view url);
// The same; kUnsupported: it is https:// and there is no libcurl.
[[nodiscard]] Result<ReceiverUrl> usable_receiver_url(std::string_view url);

// Returns whether a text repeats a secret part of the URL: some servers return the request's path.
[[nodiscard]] bool repeats_secret(std::string_view text, const ReceiverUrl& target);

struct Answer {
  unsigned status = 0;
  std::string body;  // its beginning
};

// A failed connection, an invalid or late response, and an interruption are errors; any HTTP status
// is a response.
[[nodiscard]] Result<Answer> post_json(const ReceiverUrl& target, std::string_view body,
                                       std::chrono::milliseconds at_most,
                                       const std::atomic<bool>& must_end);

}  // namespace vram::alerts
