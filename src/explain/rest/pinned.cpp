#include "explain/rest/pinned.hpp"

#include "base/bytes.hpp"
#include "trace/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace vram::explain {
namespace {

namespace figures = trace::figures;

// As of the pattern with events (waste/patterns_driver.cpp).
constexpr uint64_t kMinUnusedBytes = uint64_t{64} << 20;
// Fewer say little about a second half.
constexpr size_t kMinReadings = 4;

std::vector<uint64_t> values_of(const trace::Trace& trace, std::string_view name) {
  std::vector<uint64_t> values;
  for (const trace::Figure& figure : trace.figures)
    if (figure.device == trace::kNoDevice && figure.value != figures::kUnknown &&
        trace.tables.strings[figure.name] == name)
      values.push_back(figure.value);
  return values;
}

bool is_first_gpu(const trace::Trace& trace, const trace::DeviceTrace& device) {
  return device.kind == trace::DeviceKind::kGpu && &device == &trace.devices.front();
}

}  // namespace

std::optional<Finding> find_pinned_host(const trace::Trace& trace,
                                        const trace::DeviceTrace& device) {
  if (!is_first_gpu(trace, device)) return std::nullopt;
  const std::vector<uint64_t> reserved = values_of(trace, figures::kPinned);
  const std::vector<uint64_t> active = values_of(trace, figures::kPinnedActive);
  if (reserved.size() < kMinReadings || active.size() != reserved.size()) return std::nullopt;
  const auto half = static_cast<std::ptrdiff_t>(reserved.size() / 2);
  const uint64_t middle = reserved[static_cast<size_t>(half)];
  const uint64_t last = reserved.back();
  const uint64_t needed = *std::max_element(active.begin() + half, active.end());
  const uint64_t unused = last - std::min(last, needed);
  if (last <= middle || unused < kMinUnusedBytes || unused < last - unused) return std::nullopt;
  return Finding{
      .kind = FindingKind::kPinnedHost,
      .bytes = unused,
      .title = trf("Pinned host memory piles up: {} of {} are not in use", format_bytes(unused),
                   format_bytes(last)),
      .detail = trf("In the second half of the recording at most {} were in use at a step, "
                    "and the cache still grew, from {} to {}.",
                    format_bytes(needed), format_bytes(middle), format_bytes(last)),
      .advice =
          tr("Reuse pinned buffers of fixed sizes: PyTorch rounds each up to a power of two and "
             "never returns it. torch._C._host_emptyCache() returns what is free.")};
}

}  // namespace vram::explain
