#include "doctor/stress/device_monitor.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace vram::doctor {
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

}  // namespace vram::doctor
