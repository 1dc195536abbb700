#include "watch/rates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace vram::watch {
namespace {

constexpr double kNsPerSecond = 1e9;
// The clocks of process and reading are not read at the same moment; more than this beyond the
// whole time is no figure.
constexpr double kMaxShare = 1.1;

std::optional<uint64_t> growth(std::optional<uint64_t> before, std::optional<uint64_t> now) {
  if (!before || !now || *now < *before) return std::nullopt;
  return *now - *before;
}

// What is counted, and what is made of it.
struct Traffic {
  std::optional<uint64_t> gpu::DeviceSample::* bytes;
  std::optional<uint64_t> gpu::DeviceSample::* per_second;
};
constexpr std::array kTraffic{
    Traffic{&gpu::DeviceSample::pcie_sent_bytes, &gpu::DeviceSample::pcie_sent_bytes_per_second},
    Traffic{&gpu::DeviceSample::pcie_received_bytes,
            &gpu::DeviceSample::pcie_received_bytes_per_second},
    Traffic{&gpu::DeviceSample::nvlink_sent_bytes,
            &gpu::DeviceSample::nvlink_sent_bytes_per_second},
    Traffic{&gpu::DeviceSample::nvlink_received_bytes,
            &gpu::DeviceSample::nvlink_received_bytes_per_second}};

std::optional<uint64_t> per_second(std::optional<uint64_t> bytes, uint64_t elapsed_ns) {
  if (!bytes || elapsed_ns == 0) return std::nullopt;
  const double rate = static_cast<double>(*bytes) * kNsPerSecond / static_cast<double>(elapsed_ns);
  constexpr double kMax = 9e18;  // still a uint64_t
  if (rate > kMax) return std::nullopt;
  return static_cast<uint64_t>(std::llround(rate));
}

std::optional<uint32_t> percent(std::optional<uint64_t> busy_ns, uint64_t elapsed_ns) {
  if (!busy_ns || elapsed_ns == 0) return std::nullopt;
  const double share = static_cast<double>(*busy_ns) / static_cast<double>(elapsed_ns);
  if (share > kMaxShare) return std::nullopt;
  return static_cast<uint32_t>(std::lround(std::min(share, 1.0) * 100));
}

}  // namespace

Rates::ProcessKey Rates::key_of_process(const gpu::DeviceProcess& process) {
  return {process.pid, process.gpu_instance, process.compute_instance};
}

Rates::Counters Rates::counters_of(const DeviceReading& reading) {
  const gpu::DeviceSample& sample = reading.sample;
  Counters counters{reading.time_ns, {}, {}};
  for (const Traffic& traffic : kTraffic) counters.bytes.push_back(sample.*traffic.bytes);
  if (!sample.processes) return counters;
  for (const gpu::DeviceProcess& process : *sample.processes) {
    if (process.busy_ns) counters.busy_ns[key_of_process(process)] = *process.busy_ns;
  }
  return counters;
}

void Rates::apply_to(DeviceReading& reading, const Counters& before) {
  if (reading.time_ns <= before.time_ns) return;
  const uint64_t elapsed_ns = reading.time_ns - before.time_ns;
  gpu::DeviceSample& sample = reading.sample;
  for (size_t i = 0; i < kTraffic.size(); ++i) {
    auto& rate = sample.*kTraffic.at(i).per_second;
    if (!rate) rate = per_second(growth(before.bytes[i], sample.*kTraffic.at(i).bytes), elapsed_ns);
  }
  if (!sample.processes) return;
  for (gpu::DeviceProcess& process : *sample.processes) {
    const auto earlier = before.busy_ns.find(key_of_process(process));
    if (process.busy_percent || earlier == before.busy_ns.end()) continue;
    process.busy_percent = percent(growth(earlier->second, process.busy_ns), elapsed_ns);
  }
}

void Rates::apply(Readings& readings) {
  std::map<std::string, Counters> now;
  for (DeviceReading& reading : readings.devices) {
    const std::string key = key_of(reading.identity);
    if (key.empty()) continue;
    Counters counters = counters_of(reading);
    const auto before = last_.find(key);
    if (before != last_.end()) apply_to(reading, before->second);
    now[key] = std::move(counters);
  }
  last_ = std::move(now);
}

namespace {

void count(std::vector<XidCount>& counts, uint64_t xid, int64_t time_ns) {
  auto place = std::ranges::lower_bound(counts, xid, {}, &XidCount::xid);
  if (place == counts.end() || place->xid != xid) {
    if (counts.size() == kMaxXids) return;
    place = counts.insert(place, XidCount{xid, 0, 0});
  }
  ++place->count;
  place->last_time_ns = time_ns;
}

}  // namespace

void XidTally::apply(Readings& readings, int64_t time_ns) {
  for (DeviceReading& reading : readings.devices) {
    const std::string key = key_of(reading.identity);
    if (key.empty()) continue;
    const auto before = counts_.find(key);
    if (!reading.new_xids && before == counts_.end()) continue;
    std::vector<XidCount>& counts = counts_[key];
    for (const uint64_t xid : reading.new_xids.value_or(std::vector<uint64_t>{})) {
      count(counts, xid, time_ns);
    }
    reading.xids = counts;
  }
}

}  // namespace vram::watch
