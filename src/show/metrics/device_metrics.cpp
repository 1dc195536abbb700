// Devices and their MIG instances. See parts.hpp.
#include "show/metrics/figure_series.hpp"
#include "show/metrics/parts.hpp"
#include "watch/sources.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

namespace vram::show::metrics {

std::vector<Labels> device_labels(const watch::Snapshot& snapshot) {
  std::vector<Labels> devices;
  std::set<std::string> taken;
  for (const watch::Device& device : snapshot.devices) {
    std::string key = watch::key_of(device.identity);
    if (key.empty()) key = fmt::format("device-{}", devices.size());
    Labels labels = Labels().with("uuid", key);
    while (!taken.insert(labels.text()).second) {
      key = fmt::format("{}#{}", devices.size(), key);  // in front: long values lose their end
      labels = Labels().with("uuid", key);
    }
    devices.push_back(std::move(labels));
  }
  return devices;
}

double seconds_of(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

void add_device(const watch::Device& device, const Labels& labels, Families& families) {
  add_figures(device, std::nullopt, labels, families);
}

void add_mig(const watch::Device& device, const Labels& labels, Families& families) {
  for (const gpu::MigInstance& instance : device.health.mig_instances)
    add_figures(instance, device.sample.memory.total_bytes,
                labels.with("gi", std::to_string(instance.gpu_instance)), families);
}

}  // namespace vram::show::metrics
