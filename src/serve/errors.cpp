#include "serve/errors.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>

namespace vram::serve {
namespace {

struct Status {
  int number;
  std::string_view reason;
  std::string_view word;
};

constexpr std::array kStatuses = {
    Status{200, "OK", "ok"},
    Status{400, "Bad Request", "bad_request"},
    Status{401, "Unauthorized", "unauthorized"},
    Status{404, "Not Found", "not_found"},
    Status{405, "Method Not Allowed", "method_not_allowed"},
    Status{408, "Request Timeout", "request_timeout"},
    Status{413, "Content Too Large", "content_too_large"},
    Status{414, "URI Too Long", "uri_too_long"},
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

}  // namespace vram::serve
