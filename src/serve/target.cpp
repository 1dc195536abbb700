#include "serve/target.hpp"

#include "serve/address.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

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

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

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
  std::string name = lower(*bare);
  if (name.ends_with('.')) name.pop_back();
  return name;
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  constexpr std::string_view kHttp = "http://";
  Target target;
  if (lower(text.substr(0, kHttp.size())) == kHttp) {
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
    const std::string name = lower(trimmed(take_before(weight, ';')));
    const bool is_welcome = !is_refused(lower(trimmed(weight)));
    if (name == "gzip" || name == "x-gzip") return is_welcome;
    if (name == "*") any = is_welcome;
  }
  return any.value_or(false);
}

bool is_local_name(std::string_view host) {
  const auto name = name_of(host);
  return name && (*name == "localhost" || name->ends_with(".localhost") || is_loopback(*name));
}

bool is_trusted_host(std::string_view host, std::span<const std::string> names) {
  const auto name = name_of(host);
  return name && (is_local_name(host) || is_ip_address(*name) ||
                  std::ranges::any_of(names, [&](const auto& own) { return lower(own) == *name; }));
}

}  // namespace vram::serve
