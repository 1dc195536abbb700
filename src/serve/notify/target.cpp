// URLs, as far as http_client takes them.
#include "base/text.hpp"
#include "serve/notify/curl_api.hpp"
#include "serve/notify/http_client.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace vram::serve::notify {
namespace {

constexpr size_t kMaxUrlLength = 4'096;
constexpr uint32_t kMaxPort = 65'535;

int hex_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '%' && i + 2 < text.size() && hex_of(text[i + 1]) >= 0 &&
                           hex_of(text[i + 2]) >= 0;
    result +=
        is_escape ? static_cast<char>(hex_of(text[i + 1]) * 16 + hex_of(text[i + 2])) : text[i];
    if (is_escape) i += 2;
  }
  return result;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j)
      result += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63U];
  }
  return result;
}

// FNV-1a, folded.
uint32_t hash16(std::string_view text) {
  uint32_t hash = 2'166'136'261;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619;
  return (hash >> 16 ^ hash) & 0xffffU;
}

bool is_port(std::string_view text) {
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port <= kMaxPort;
}

// "host", "host:80", "[::1]:80".
std::optional<std::pair<std::string, std::string>> host_and_port(std::string_view text,
                                                                 std::string_view default_port) {
  std::string_view host = text;
  std::string_view rest;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else {
    host = text.substr(0, text.find(':'));
    rest = text.substr(host.size());
  }
  if (host.empty() || (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))))
    return std::nullopt;
  return std::pair(std::string(host), std::string(rest.empty() ? default_port : rest.substr(1)));
}

bool is_plain(std::string_view url) {
  return url.size() <= kMaxUrlLength &&
         std::ranges::all_of(url, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

// Nothing of a URL that can't be understood is repeated in the error but its scheme: there may be a
// password anywhere in it.
Result<Target> parse_target(std::string_view url) {
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  Target target;
  target.is_https = url.starts_with(kHttps);
  const std::string_view scheme = target.is_https ? kHttps : kHttp;
  const uint32_t hash = hash16(url);
  if (!url.starts_with(scheme) || !is_plain(url)) {
    // Without a scheme it may be any secret: the file of another one was named.
    const size_t mark = url.find("://");
    return fail(
        Code::kBadInput,
        "expected a URL such as http://127.0.0.1:9093/path (http:// or https://, ASCII, no "
        "spaces), found {}",
        mark == std::string_view::npos
            ? "a text without ://"
            : fmt::format("one with {}://", shorten_end(printable(url.substr(0, mark)), 20)));
  }
  url.remove_prefix(scheme.size());
  url = url.substr(0, url.find('#'));
  const size_t end = std::min(url.find_first_of("/?"), url.size());
  std::string_view authority = url.substr(0, end);
  const size_t at = authority.rfind('@');
  if (at != std::string_view::npos) {
    target.authorization = "Basic " + base64(unescaped(authority.substr(0, at)));
    authority.remove_prefix(at + 1);
  }
  const auto place = host_and_port(authority, target.is_https ? "443" : "80");
  if (!place)
    return fail(Code::kBadInput,
                "expected a host and perhaps a port (1 to 65535) after http://, as in "
                "http://127.0.0.1:9093 or http://[::1]:9093, found another text, which is not "
                "repeated here: a password may be in it");
  target.host = place->first;
  target.port = place->second;
  target.path = std::string(url.substr(end));
  if (!target.path.starts_with('/')) target.path.insert(0, "/");
  target.shown = fmt::format("{}{}", scheme, authority);
  target.key = fmt::format("{} {:04x}", target.shown, hash);
  return target;
}

Result<Target> usable_target(std::string_view url) {
  auto target = parse_target(url);
  if (!target || !target->is_https) return target;
  const auto& library = CurlApi::library();
  if (!library) return tl::unexpected(library.error());
  return target;
}

bool repeats_secret(std::string_view text, const Target& target) {
  constexpr size_t kMinLength = 4;  // "v1" and "api" are in many texts
  constexpr std::string_view kMarks = "/?&=;";
  const auto repeats = [&](std::string_view part) {
    return part.size() >= kMinLength && (text.find(part) != std::string_view::npos ||
                                         text.find(unescaped(part)) != std::string_view::npos);
  };
  std::string_view rest = target.path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(kMarks), rest.size());
    if (repeats(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return !target.authorization.empty() &&
         repeats(std::string_view(target.authorization).substr(target.authorization.find(' ') + 1));
}

}  // namespace vram::serve::notify
