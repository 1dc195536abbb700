#include "serve/response_head.hpp"

#include "base/check.hpp"
#include "serve/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <string_view>

namespace vram::serve {
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
