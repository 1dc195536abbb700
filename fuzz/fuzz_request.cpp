// Bytes as what a client may choose: the target of a request, its headers, parameters. Whatever
// they are: no crash, and what is accepted holds what it promises.
#include "base/result.hpp"
#include "serve/credentials.hpp"
#include "serve/target.hpp"
#include "show/metrics/metrics.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vram::serve {
namespace {

void try_target(std::string_view text) {
  const auto target = parse_target(text);
  if (!target) return;
  VRAM_CHECK(!target->path.empty());
  VRAM_CHECK(target->path.find('\0') == std::string::npos);
  VRAM_CHECK(target->query.size() <= 64);
  for (const auto& [name, value] : target->query) {
    VRAM_CHECK(parameter(target->query, name).has_value());
    (void)parse_when(value, 1);
  }
}

void try_address(std::string_view text) {
  const auto address = parse_address(text);
  if (!address) return;
  const auto again = parse_address(address->text());
  VRAM_CHECK(again && again->ip == address->ip && again->port == address->port);
}

}  // namespace
}  // namespace vram::serve

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const vram::serve::Token token("0123456789abcdef");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  vram::serve::try_target(text);
  vram::serve::try_address(text);
  (void)vram::serve::accepts_gzip(text);
  (void)vram::serve::is_local_name(text);
  (void)vram::show::negotiate(text);
  const auto time = vram::serve::parse_when(text, 1'795'338'845'000'000'000);
  VRAM_CHECK(!time || *time >= 0);
  VRAM_CHECK(!token.accepts_authorization(text) || text.ends_with("0123456789abcdef"));
  return 0;
}
