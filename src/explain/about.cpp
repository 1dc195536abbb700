#include "explain/about.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace vram::explain {

std::optional<uint64_t> number_about(const trace::Trace& trace, std::string_view key) {
  const auto found = std::ranges::find(trace.about, key, &trace::Setting::key);
  uint64_t number = 0;
  if (found == trace.about.end()) return std::nullopt;
  const char* const end = found->value.data() + found->value.size();
  const auto read = std::from_chars(found->value.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

std::optional<uint64_t> memory_bytes_of(const trace::Trace& trace,
                                        const trace::DeviceTrace& device) {
  return number_about(trace, fmt::format("device.{}.memory_bytes", device.ordinal));
}

}  // namespace vram::explain
