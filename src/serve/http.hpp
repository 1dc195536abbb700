// Requests and responses as values, between the protocol (http_server) and their handlers (guard,
// router, api). Contains no type of a network library.
#pragma once

#include "base/result.hpp"
#include "serve/body.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::serve {

// kPost: changes something. kOther: a method that is answered nowhere.
enum class Method : uint8_t { kGet, kHead, kPost, kOther };

using Query = std::vector<std::pair<std::string, std::string>>;  // decoded, in the order given

struct Request {
  Method method = Method::kGet;
  std::string path;  // decoded; begins with a slash
  Query query;
  // Headers; empty if missing.
  std::string host;
  std::string accept;
  std::string accept_encoding;
  std::string authorization;
  std::string content_type;
  std::string origin;      // of the page that sent it, as the browser says
  std::string fetch_site;  // Sec-Fetch-Site
  std::string body;        // of a POST with JSON
  std::string client;      // "127.0.0.1:52144"
  bool is_local = true;    // to an address that only this machine reaches
  std::optional<bool> password_is_right = std::nullopt;  // nothing: it was not checked
};

// A body that is made while it is sent, so that a large response is never completely in memory.
// Used on the server's second thread, one call at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  // Returns the next piece, of some tens of KiB; empty: the end. After an error the connection is
  // closed, so that the client knows that the response is incomplete.
  [[nodiscard]] virtual Result<std::string> next() = 0;
  // Memory held until the next call.
  [[nodiscard]] virtual size_t held_bytes() const = 0;
};

struct Response {
  int status = 200;
  std::string content_type;
  std::shared_ptr<const Body> body;  // this or a stream
  std::shared_ptr<Stream> stream = nullptr;
  std::vector<std::pair<std::string, std::string>> headers;
};

using Handler = std::function<Response(const Request&)>;

// Error responses: vram.error/1, with a status, an identifier and a message. Pure functions.

// "Not Found"
[[nodiscard]] std::string_view reason_of(int status);
// `message` states what was expected, what was found, and what to do. Client text in it is escaped.
[[nodiscard]] Response error_response(int status, std::string_view message);
// By the error's code: 400, 404, 413; of what this machine refused, 503.
[[nodiscard]] Response error_response(const Error& error);
inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
[[nodiscard]] Response json_response(std::string text);

// The lines above a response's body. A pure function but for the clock.

struct Sending {
  std::optional<size_t> body_bytes = 0;  // unknown of a stream
  bool is_chunked = false;
  bool is_gzip = false;
  bool keeps_alive = true;
};

// Includes the headers of every response: no caching, no content sniffing, no use by other sites'
// pages.
[[nodiscard]] std::string response_head(const Response& response, const Sending& sending);

}  // namespace vram::serve
