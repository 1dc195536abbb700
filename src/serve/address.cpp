#include "serve/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <optional>

namespace vram::serve {
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

}  // namespace vram::serve
