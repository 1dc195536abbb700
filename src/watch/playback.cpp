#include "watch/playback.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <bit>
#include <unistd.h>

namespace vram::watch {
namespace {

constexpr uint64_t kMinDeviceBytes = uint64_t{1} << 30U;
constexpr uint64_t kMaxDeviceBytes = uint64_t{1} << 50U;  // more is no memory

uint32_t this_pid() { return static_cast<uint32_t>(getpid()); }

std::optional<uint64_t> total_of(const Playable& playable) {
  const uint64_t most =
      std::ranges::max_element(playable.points, {}, &PlayedPoint::reserved_bytes)->reserved_bytes;
  if (playable.total_bytes >= most) return playable.total_bytes;
  if (most > kMaxDeviceBytes) return std::nullopt;
  return std::bit_ceil(std::max(most, kMinDeviceBytes));
}

}  // namespace

Playback::Playback(Playable playable, std::function<uint64_t()> clock)
    : length_ns_(playable.length_ns),
      device_(playable.device),
      name_(std::move(playable.name)),
      clock_(std::move(clock)) {
  VRAM_CHECK(!playable.points.empty() && playable.points.front().time_ns == 0 && length_ns_ > 0);
  total_bytes_ = total_of(playable);
  uint64_t peak_bytes = 0;
  for (const PlayedPoint& point : playable.points) {
    peak_bytes = std::max(peak_bytes, point.allocated_bytes);
    figures_.push_back({point, peak_bytes});
  }
  now_ = figures_.front();
  begin_ns_ = clock_();
}

gpu::DeviceSample Playback::take_sample() {
  const uint64_t time_ns = (clock_() - begin_ns_) % length_ns_;
  const auto later = std::ranges::upper_bound(
      figures_, time_ns, {}, [](const Figures& figures) { return figures.point.time_ns; });
  now_ = *std::prev(later);
  gpu::DeviceSample sample;
  const uint64_t used_bytes = now_.point.reserved_bytes;
  sample.memory.total_bytes = total_bytes_;
  sample.memory.used_bytes = used_bytes;
  if (total_bytes_) sample.memory.free_bytes = *total_bytes_ - used_bytes;
  gpu::DeviceProcess process;
  process.pid = this_pid();
  process.is_compute = true;
  process.used_bytes = used_bytes;
  sample.processes = {{process}};
  return sample;
}

std::optional<record::BoardFigures> Playback::figures_of(const ProcessFacts& facts) {
  if (facts.pid != this_pid()) return std::nullopt;
  const PlayedPoint& point = now_.point;
  record::BoardFigures figures;
  figures.device_count = 1;
  figures.devices[0] = {.device = device_,
                        .allocated_bytes = point.allocated_bytes,
                        .reserved_bytes = point.reserved_bytes,
                        .peak_bytes = now_.peak_bytes,
                        .cached_bytes = point.reserved_bytes >= point.allocated_bytes
                                            ? point.reserved_bytes - point.allocated_bytes
                                            : record::kBoardUnknown};
  return figures;
}

gpu::DeviceIdentity PlayedGpu::identity(uint32_t index) const {
  gpu::DeviceIdentity identity;
  identity.index = index;
  identity.vendor = gpu::Vendor::kSimulated;
  identity.name = playback_->name();
  return identity;
}

gpu::DeviceSample PlayedGpu::sample(uint32_t index) const {
  gpu::DeviceSample sample = playback_->take_sample();
  sample.index = index;
  return sample;
}

}  // namespace vram::watch
