#include "explain/findings/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace vram::explain {
namespace {

bool is_true(std::string_view value) { return value == "True" || value == "true" || value == "1"; }

int64_t number_of(std::string_view value) {
  int64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

// Early releases wrote "none" as the largest size_t, which does not fit; nobody sets a limit of an
// exbibyte.
std::optional<uint64_t> split_size(std::string_view value) {
  const int64_t bytes = number_of(value);
  if (bytes <= 0 || bytes >= int64_t{1} << 60) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

}  // namespace

AllocatorSettings read_settings(const trace::Trace& trace) {
  AllocatorSettings settings;
  for (const trace::Setting& s : trace.settings) {
    if (s.key == "expandable_segments") settings.expandable_segments = is_true(s.value);
    if (s.key == "max_split_size") settings.max_split_size_bytes = split_size(s.value);
    if (s.key == "garbage_collection_threshold")
      settings.garbage_collection_threshold = std::strtod(s.value.c_str(), nullptr);
    if (s.key.starts_with("roundup_power2_divisions")) {
      const auto divisions = static_cast<uint64_t>(std::max<int64_t>(number_of(s.value), 0));
      settings.largest_roundup_divisions = std::max(settings.largest_roundup_divisions, divisions);
    }
  }
  return settings;
}

}  // namespace vram::explain
