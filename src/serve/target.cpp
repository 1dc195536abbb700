#include "serve/target.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "base/time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>

namespace vram::serve {
namespace {

constexpr size_t kMaxParameters = 64;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::optional<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\0') return std::nullopt;
    if (text[i] != '%') {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit_of(text[i + 1]);
    const int low = digit_of(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// Takes what stands before the mark off the text's front, and the mark with it.
std::string_view take_before(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

std::optional<Query> parse_query(std::string_view text) {
  Query query;
  while (!text.empty()) {
    std::string_view value = take_before(text, '&');
    if (value.empty()) continue;
    const auto name = decoded(take_before(value, '='), true);
    const auto meant = decoded(value, true);
    if (!name || !meant || query.size() == kMaxParameters) return std::nullopt;
    query.emplace_back(*name, *meant);
  }
  return query;
}

constexpr std::string_view kHeaderBlanks = " \t";

// "q=0", "q=0.0" and their like: not at all.
bool is_refused(std::string_view weight) {
  if (!weight.starts_with("q=")) return false;
  weight.remove_prefix(2);
  return !weight.empty() && weight.find_first_not_of("0.") == std::string_view::npos;
}

// "host:80" -> "host", "[::1]:80" -> "::1"; nothing where what follows is no port.
std::optional<std::string_view> without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return std::nullopt;
    return host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

std::optional<std::string> name_of(std::string_view host) {
  const auto bare = without_port(host);
  if (!bare || bare->empty()) return std::nullopt;
  std::string name = ascii_lower(*bare);
  if (name.ends_with('.')) name.pop_back();
  return name;
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  constexpr std::string_view kHttp = "http://";
  Target target;
  if (ascii_lower(text.substr(0, kHttp.size())) == kHttp) {
    text.remove_prefix(kHttp.size());
    const size_t slash = std::min(text.find_first_of("/?"), text.size());
    target.host = text.substr(0, slash);
    text.remove_prefix(slash);
  } else if (!text.starts_with('/')) {
    return fail(Code::kBadInput, "expected a path that begins with / as the target");
  }
  text = text.substr(0, text.find('#'));
  const auto path = decoded(take_before(text, '?'), false);
  auto query = parse_query(text);
  if (!path || !query)
    return fail(Code::kBadInput,
                "the target has a % that two hexadecimal digits do not follow, a byte 0, or more "
                "than {} parameters",
                kMaxParameters);
  target.path = path->empty() ? "/" : *path;
  target.query = *std::move(query);
  return target;
}

std::optional<std::string_view> parameter(const Query& query, std::string_view name) {
  const auto found = std::ranges::find(
      query, name, [](const auto& each) -> std::string_view { return each.first; });
  if (found == query.end()) return std::nullopt;
  return found->second;
}

bool accepts_gzip(std::string_view accept_encoding) {
  std::optional<bool> any;
  while (!accept_encoding.empty()) {
    std::string_view weight = take_before(accept_encoding, ',');
    const std::string name = ascii_lower(trimmed(take_before(weight, ';'), kHeaderBlanks));
    const bool is_welcome = !is_refused(ascii_lower(trimmed(weight, kHeaderBlanks)));
    if (name == "gzip" || name == "x-gzip") return is_welcome;
    if (name == "*") any = is_welcome;
  }
  return any.value_or(false);
}

bool is_local_name(std::string_view host) {
  const auto name = name_of(host);
  return name && (*name == "localhost" || name->ends_with(".localhost") || is_loopback(*name));
}

bool is_own_origin(std::string_view origin, std::string_view host,
                   std::span<const std::string> names) {
  const size_t end = origin.find("://");
  if (end == std::string_view::npos) return false;  // "null": of a page that hides it
  const std::string authority = ascii_lower(origin.substr(end + 3));
  if (!authority.empty() && authority == ascii_lower(host)) return true;
  const auto name = name_of(authority);
  return name &&
         std::ranges::any_of(names, [&](const auto& own) { return ascii_lower(own) == *name; });
}

bool is_trusted_host(std::string_view host, std::span<const std::string> names) {
  const auto name = name_of(host);
  return name &&
         (is_local_name(host) || is_ip_address(*name) ||
          std::ranges::any_of(names, [&](const auto& own) { return ascii_lower(own) == *name; }));
}

namespace {

bool is_ip4(const std::string& text) {
  in_addr parsed{};
  return inet_pton(AF_INET, text.c_str(), &parsed) == 1;
}

std::optional<in6_addr> ip6_of(const std::string& text) {
  in6_addr parsed{};
  if (inet_pton(AF_INET6, text.c_str(), &parsed) != 1) return std::nullopt;
  return parsed;
}

std::optional<uint16_t> port_of(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

}  // namespace

std::string Address::text() const {
  return ip.find(':') == std::string::npos ? fmt::format("{}:{}", ip, port)
                                           : fmt::format("[{}]:{}", ip, port);
}

Result<Address> parse_address(std::string_view text) {
  const auto refused = [&] {
    return fail(Code::kBadInput,
                "--listen: expected an address of this machine and a port, as 127.0.0.1:9877, "
                "[::1]:9877 or 0.0.0.0:9877 (every address), found '{}'",
                text);
  };
  std::string_view ip = text;
  std::string_view port = "9877";
  const size_t colon = text.rfind(':');
  const bool is_bare_ip6 = !text.starts_with('[') && std::ranges::count(text, ':') > 1;
  const bool has_port = colon != std::string_view::npos && !is_bare_ip6 && !text.ends_with(']');
  if (has_port) {
    ip = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (ip.starts_with('[') && ip.ends_with(']')) {
    ip = ip.substr(1, ip.size() - 2);
    if (!ip6_of(std::string(ip))) return refused();
  }
  if (ip == "localhost") ip = "127.0.0.1";
  const auto number = port_of(port);
  const std::string named(ip);
  if (!number || (!is_ip4(named) && !ip6_of(named))) return refused();
  return Address{.ip = named, .port = *number};
}

bool is_ip_address(std::string_view text) {
  const std::string ip(text);
  return is_ip4(ip) || ip6_of(ip).has_value();
}

bool is_loopback(std::string_view ip) {
  const std::string text(ip);
  if (is_ip4(text)) return text.starts_with("127.");
  const auto parsed = ip6_of(text);
  return parsed && IN6_IS_ADDR_LOOPBACK(&*parsed);
}

namespace {

constexpr size_t kNsDigits = 9;
constexpr int64_t kLatestS = 9'000'000'000;  // int64_t counts nanoseconds until then
constexpr size_t kMaxDigits = 10;

std::optional<int64_t> digits_of(std::string_view text) {
  int64_t value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// To the nanosecond, which a double has not.
std::optional<int64_t> seconds_of(std::string_view text) {
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  std::string fraction(text.substr(std::min(point + 1, text.size())));
  const bool has_empty_part = whole.empty() || (point < text.size() && fraction.empty());
  if (has_empty_part || whole.size() > kMaxDigits || fraction.size() > kNsDigits)
    return std::nullopt;
  fraction.resize(kNsDigits, '0');
  const auto seconds = digits_of(whole);
  const auto part_ns = digits_of(fraction);
  if (!seconds || !part_ns || *seconds > kLatestS) return std::nullopt;
  return *seconds * kSignedSecondNs + *part_ns;
}

// Takes so many digits off the front.
std::optional<unsigned> take_digits(std::string_view& text, size_t count) {
  unsigned value = 0;
  if (text.size() < count) return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + count, value);
  if (error != std::errc() || stop != text.data() + count) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

// "2026-11-22T09:14:05Z"
std::optional<int64_t> calendar_time(std::string_view text) {
  using namespace std::chrono;
  unsigned parts[6] = {};
  const std::string_view marks = "--T::Z";
  for (size_t i = 0; i < marks.size(); ++i) {
    const auto part = take_digits(text, i == 0 ? 4 : 2);
    if (!part || text.empty() || text.front() != marks[i]) return std::nullopt;
    text.remove_prefix(1);
    parts[i] = *part;
  }
  const year_month_day date(year(static_cast<int>(parts[0])), month(parts[1]), day(parts[2]));
  if (!text.empty() || !date.ok() || parts[0] < 1970 || parts[0] > 2200) return std::nullopt;
  if (parts[3] > 23 || parts[4] > 59 || parts[5] > 60) return std::nullopt;
  const auto time = sys_days(date) + hours(parts[3]) + minutes(parts[4]) + seconds(parts[5]);
  return duration_cast<nanoseconds>(time.time_since_epoch()).count();
}

std::optional<int64_t> before(std::string_view text, int64_t now_ns) {
  if (!text.starts_with('-')) return std::nullopt;
  const auto ago_ns = parse_duration_ns(text.substr(1));
  if (!ago_ns || *ago_ns > now_ns) return std::nullopt;
  return now_ns - *ago_ns;
}

}  // namespace

Result<int64_t> parse_when(std::string_view text, int64_t now_ns) {
  if (text == "now") return now_ns;
  if (const auto time = seconds_of(text)) return *time;
  if (const auto time = calendar_time(text)) return *time;
  if (const auto time = before(text, now_ns)) return *time;
  return fail(Code::kBadInput,
              "expected seconds since 1970, a time as 2026-11-22T09:14:05Z, now, or -90min, found "
              "'{}'",
              printable(text.substr(0, 100)));
}

}  // namespace vram::serve
