#include "explain/history/allocator_rules.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <string_view>

namespace vram::explain {
namespace {

constexpr std::string_view kDivisionsPrefix = "roundup_power2_divisions.";

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

unsigned log2_floor(uint64_t value) { return static_cast<unsigned>(std::bit_width(value)) - 1; }

void read_division(AllocatorRules& rules, std::string_view mebibytes, std::string_view divisions) {
  const auto key = parse_number(mebibytes);
  const auto value = parse_number(divisions);
  if (!key || !value || *key == 0 || log2_floor(*key) >= rules.divisions.size()) return;
  if (*value < 2 || !std::has_single_bit(*value) || *value > kMiB) return;
  rules.divisions[log2_floor(*key)] = *value;
  rules.has_divisions = true;
}

}  // namespace

uint64_t AllocatorRules::round_to_divisions(uint64_t requested_bytes) const {
  if (requested_bytes <= kMinBlockBytes) return kMinBlockBytes;
  const unsigned log2 = log2_floor(requested_bytes);
  const unsigned interval = std::clamp(log2, 20u, 35u) - 20u;
  const uint64_t count = divisions[interval];
  if (count <= 1 || requested_bytes <= kMinBlockBytes * count) {
    return (requested_bytes + kMinBlockBytes - 1) & ~(kMinBlockBytes - 1);
  }
  if (std::has_single_bit(requested_bytes)) return requested_bytes;
  const uint64_t floor = uint64_t{1} << log2;
  const uint64_t step = floor >> log2_floor(count);
  return step == 0 ? 2 * floor : (requested_bytes + step - 1) / step * step;
}

AllocatorRules rules_of(const trace::Trace& trace, trace::DeviceKind kind) {
  AllocatorRules rules;
  if (kind == trace::DeviceKind::kHost) {
    rules.never_splits = true;  // and the settings below are not its own
    return rules;
  }
  for (const trace::Setting& setting : trace.settings) {
    const std::string_view key = setting.key;
    if (key == "max_split_size") {
      // -1 and, in early versions, the largest size_t mean "none".
      if (const auto value = parse_number(setting.value); value && *value > 0) {
        rules.max_split_bytes = *value;
      }
    } else if (key == "large_segment_size_mb") {
      const auto value = parse_number(setting.value);
      if (value && *value > 0 && *value <= 1024 * 1024) rules.large_granule_bytes = *value * kMiB;
    } else if (key.starts_with(kDivisionsPrefix)) {
      read_division(rules, key.substr(kDivisionsPrefix.size()), setting.value);
    }
  }
  return rules;
}

}  // namespace vram::explain
