#include "replay/peers/torch_rules.hpp"

#include <algorithm>

namespace vram::replay {
namespace {

unsigned log2_floor(uint64_t value) { return static_cast<unsigned>(std::bit_width(value)) - 1; }

}  // namespace

TorchRules::TorchRules(const TorchSettings& settings)
    : settings_(settings),
      non_split_rounding_bytes_(
          settings.max_non_split_rounding_bytes.value_or(settings.large_segment_bytes)),
      has_divisions_(std::any_of(settings.divisions.begin(), settings.divisions.end(),
                                 [](uint64_t count) { return count > 1; })) {}

uint64_t TorchRules::round_to_divisions(uint64_t requested_bytes) const {
  if (requested_bytes <= kMinBlockBytes) return kMinBlockBytes;
  const unsigned log2 = log2_floor(requested_bytes);
  const uint64_t count = settings_.divisions[std::clamp(log2, 20u, 35u) - 20u];
  if (count <= 1 || requested_bytes <= kMinBlockBytes * count) {
    return (requested_bytes + kMinBlockBytes - 1) & ~(kMinBlockBytes - 1);
  }
  if (std::has_single_bit(requested_bytes)) return requested_bytes;
  const uint64_t floor = uint64_t{1} << log2;
  const uint64_t step = floor >> log2_floor(count);
  return step == 0 ? 2 * floor : (requested_bytes + step - 1) / step * step;
}

}  // namespace vram::replay
