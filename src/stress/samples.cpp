#include "stress/samples.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <system_error>
#include <utility>

namespace vram::stress {
namespace {

constexpr double kSecondNs = 1e9;
constexpr uint64_t kMillion = 1'000'000;

uint32_t power_of(uint64_t value) {
  return value == 0 ? 0 : static_cast<uint32_t>(std::bit_width(value)) - 1;
}

// The smallest that so many percent of the values are not above; of sorted values.
uint64_t percentile(const std::vector<uint64_t>& sorted, size_t percent) {
  const size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

void count_by_power(const std::vector<uint64_t>& sorted, Figure& figure) {
  figure.first_power = power_of(sorted.front());
  figure.histogram.assign(power_of(sorted.back()) - figure.first_power + 1, 0);
  for (const uint64_t value : sorted) ++figure.histogram[power_of(value) - figure.first_power];
}

}  // namespace

void Samples::add(uint64_t value) {
  low_ = count_ == 0 ? value : std::min(low_, value);
  high_ = std::max(high_, value);
  ++count_;
  if (kept_.size() < kMaxKept) {
    kept_.push_back(value);
    return;
  }
  const uint64_t place = std::uniform_int_distribution<uint64_t>(0, count_ - 1)(random_);
  if (place < kMaxKept) kept_[place] = value;
}

Figure Samples::figure(std::string name, uint64_t size_bytes, Unit unit) const {
  Figure figure{.name = std::move(name), .size_bytes = size_bytes, .unit = unit, .count = count_};
  if (count_ == 0) return figure;
  std::vector<uint64_t> sorted = kept_;
  std::ranges::sort(sorted);
  figure.low = low_;
  figure.quarter = percentile(sorted, 25);
  figure.median = percentile(sorted, 50);
  figure.three_quarters = percentile(sorted, 75);
  figure.p99 = percentile(sorted, 99);
  figure.high = high_;
  count_by_power(sorted, figure);
  return figure;
}

uint64_t bytes_per_second(uint64_t bytes, int64_t duration_ns) {
  if (duration_ns <= 0) return 0;
  return static_cast<uint64_t>(static_cast<double>(bytes) * kSecondNs /
                               static_cast<double>(duration_ns));
}

Figure share_figure(std::string name, uint64_t part, uint64_t whole) {
  Samples one;
  const double share =
      static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(whole, 1));
  one.add(static_cast<uint64_t>(share * static_cast<double>(kMillion)));
  return one.figure(std::move(name), 0, Unit::kPartsPerMillion);
}

namespace {

constexpr auto kPeriod = std::chrono::seconds(1);

void raise(std::optional<uint32_t>& highest, const std::optional<uint32_t>& value) {
  if (value) highest = std::max(highest.value_or(0), *value);
}

}  // namespace

void widen(Extremes& extremes, const watch::Device& device) {
  ++extremes.sample_count;
  raise(extremes.celsius, device.sample.celsius);
  raise(extremes.memory_celsius, device.health.memory_celsius);
  raise(extremes.milliwatts, device.sample.milliwatts);
  if (const auto& mhz = device.sample.core_mhz)
    extremes.lowest_core_mhz = std::min(extremes.lowest_core_mhz.value_or(*mhz), *mhz);
  if (!device.sample.throttle_reasons) return;
  for (const std::string& reason : *device.sample.throttle_reasons) {
    if (std::ranges::count(extremes.throttle_reasons, reason) == 0)
      extremes.throttle_reasons.push_back(reason);
  }
}

DeviceMonitor::DeviceMonitor(ReadDevice read_device) : read_device_(std::move(read_device)) {
  if (!read_device_) return;
  health_.before = read_device_();
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // Without threads there is nothing between before and after.
  }
}

void DeviceMonitor::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kPeriod, [this] { return is_ending_; })) {
    lock.unlock();
    if (const auto device = read_device_()) widen(health_.extremes, *device);
    lock.lock();
  }
}

void DeviceMonitor::end() {
  {
    const std::lock_guard guard(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Health DeviceMonitor::finish() {
  end();
  if (!read_device_) return std::move(health_);
  health_.after = read_device_();
  for (const auto& device : {health_.before, health_.after}) {
    if (device) widen(health_.extremes, *device);
  }
  return std::move(health_);
}

}  // namespace vram::stress
