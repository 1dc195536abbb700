#include "serve/http.hpp"

#include "base/json.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <string_view>

namespace vram::serve {
namespace {

struct Status {
  int number;
  std::string_view reason;
  std::string_view word;
};

constexpr std::array kStatuses = {
    Status{200, "OK", "ok"},
    Status{202, "Accepted", "accepted"},
    Status{400, "Bad Request", "bad_request"},
    Status{401, "Unauthorized", "unauthorized"},
    Status{403, "Forbidden", "forbidden"},
    Status{404, "Not Found", "not_found"},
    Status{405, "Method Not Allowed", "method_not_allowed"},
    Status{408, "Request Timeout", "request_timeout"},
    Status{409, "Conflict", "conflict"},
    Status{413, "Content Too Large", "content_too_large"},
    Status{414, "URI Too Long", "uri_too_long"},
    Status{415, "Unsupported Media Type", "unsupported_media_type"},
    Status{421, "Misdirected Request", "misdirected_request"},
    Status{431, "Request Header Fields Too Large", "header_too_large"},
    Status{500, "Internal Server Error", "internal"},
    Status{501, "Not Implemented", "not_implemented"},
    Status{503, "Service Unavailable", "unavailable"},
    Status{505, "HTTP Version Not Supported", "version_not_supported"},
};

const Status& status_of(int number) {
  const auto found = std::ranges::find(kStatuses, number, &Status::number);
  return found == kStatuses.end() ? *std::ranges::find(kStatuses, 500, &Status::number) : *found;
}

}  // namespace

std::string_view reason_of(int status) { return status_of(status).reason; }

Response json_response(std::string text) {
  return {.status = 200,
          .content_type = std::string(kJsonType),
          .body = std::make_shared<Body>(std::move(text)),
          .headers = {}};
}

Response error_response(int status, std::string_view message) {
  const Json document = {
      {"schema", "vram.error/1"},
      {"error",
       {{"status", status}, {"code", status_of(status).word}, {"message", valid_utf8(message)}}}};
  Response response = json_response(document.dump(2, ' ', true) + "\n");
  response.status = status;
  return response;
}

Response error_response(const Error& error) {
  switch (error.code) {
    case Code::kBadInput:
      return error_response(400, error.message);
    case Code::kNotFound:
      return error_response(404, error.message);
    case Code::kTooLarge:
      return error_response(413, error.message);
    default:
      return error_response(503, error.message);
  }
}

namespace {

constexpr std::string_view kTypeOptions = "X-Content-Type-Options";

// "Sun, 22 Nov 2026 09:14:05 GMT"
std::string date_text(time_t now) {
  std::array<char, 40> text{};
  tm parts{};
  (void)gmtime_r(&now, &parts);
  // The program never changes its locale from "C".
  const size_t size = strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

}  // namespace

std::string response_head(const Response& response, const Sending& sending) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nContent-Type: {}\r\n", response.status,
                  reason_of(response.status), date_text(time(nullptr)), response.content_type);
  if (sending.body_bytes) head += fmt::format("Content-Length: {}\r\n", *sending.body_bytes);
  if (sending.is_chunked) head += "Transfer-Encoding: chunked\r\n";
  head +=
      "Cache-Control: no-store\r\nVary: Accept, Accept-Encoding\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\n";
  const bool has_own_policy = std::ranges::any_of(
      response.headers, [](const auto& header) { return header.first == kTypeOptions; });
  if (!has_own_policy) fmt::format_to(std::back_inserter(head), "{}: nosniff\r\n", kTypeOptions);
  if (sending.is_gzip) head += "Content-Encoding: gzip\r\n";
  for (const auto& [name, value] : response.headers) {
    VRAM_CHECK(value.find_first_of("\r\n") == std::string::npos);
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  }
  head += sending.keeps_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

}  // namespace vram::serve
