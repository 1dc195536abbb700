#include "show/top/state.hpp"

#include <algorithm>

namespace vram::show::top {
namespace {

constexpr double kNsPerSecond = 1e9;

std::string key_of(const watch::Device& device) {
  const gpu::DeviceIdentity& identity = device.identity;
  return identity.uuid.value_or(identity.pci_id.value_or(std::to_string(identity.index)));
}

template <typename T>
std::optional<float> share(const std::optional<T>& part, double whole) {
  if (!part || !(whole > 0)) return std::nullopt;
  return static_cast<float>(std::clamp(static_cast<double>(*part) / whole, 0.0, 1.0));
}

std::optional<uint64_t> sum(const std::optional<uint64_t>& a, const std::optional<uint64_t>& b) {
  uint64_t both = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &both)) return std::nullopt;
  return both;
}

}  // namespace

void History::add_to(Kept& kept, const watch::Device& device, uint64_t time_ns) {
  const gpu::DeviceSample& sample = device.sample;
  const auto nvlink = sum(sample.nvlink_sent_bytes, sample.nvlink_received_bytes);
  const uint64_t before_ns = kept.points.empty() ? time_ns : kept.points.back().time_ns;
  kept.nvlink_rate.reset();
  if (nvlink && kept.nvlink_bytes && *nvlink >= *kept.nvlink_bytes && time_ns > before_ns) {
    const double seconds = static_cast<double>(time_ns - before_ns) / kNsPerSecond;
    const double rate = static_cast<double>(*nvlink - *kept.nvlink_bytes) / seconds;
    if (rate < 0x1p62) kept.nvlink_rate = static_cast<uint64_t>(rate);
  }
  kept.nvlink_bytes = nvlink;
  const auto total = static_cast<double>(sample.memory.total_bytes.value_or(0));
  const auto limit = static_cast<double>(device.identity.power_limit_milliwatts.value_or(0));
  kept.points.push_back({time_ns, share(sample.memory.used_bytes, total),
                         share(sample.busy_percent, 100), share(sample.milliwatts, limit),
                         share(sample.celsius, 100)});
  if (kept.points.size() > kMaxPoints) kept.points.pop_front();
}

void History::add(const watch::Sampled& sampled) {
  if (sampled.number == number_) return;
  number_ = sampled.number;
  for (const watch::Device& device : sampled.snapshot.devices) {
    Kept& kept = kept_[key_of(device)];
    kept.number = number_;
    add_to(kept, device, sampled.begin_ns);
  }
  // Devices that have been gone longer than that have no points left that a screen would show.
  std::erase_if(kept_,
                [this](const auto& each) { return each.second.number + kMaxPoints < number_; });
}

const std::deque<HistoryPoint>& History::of(const watch::Device& device) const {
  static const std::deque<HistoryPoint> kNothing;
  const auto found = kept_.find(key_of(device));
  return found == kept_.end() ? kNothing : found->second.points;
}

std::optional<uint64_t> History::nvlink_bytes_per_second(const watch::Device& device) const {
  const auto found = kept_.find(key_of(device));
  return found == kept_.end() ? std::nullopt : found->second.nvlink_rate;
}

}  // namespace vram::show::top
