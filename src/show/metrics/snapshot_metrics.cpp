// Devices and their MIG instances; processes on the devices: each of the largest, and sums that
// need no series of each; and the same under dcgm-exporter's names.
#include "show/metrics/snapshot_metrics.hpp"

#include "base/bytes.hpp"
#include "show/live/status_words.hpp"
#include "watch/bounds.hpp"
#include "watch/figures/figure.hpp"
#include "watch/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

namespace vram::show::metrics {
namespace {

namespace figures = watch::figures;

// The series that rows of the table of figures have: constants and functions up to add_figures().
constexpr uint64_t kWholePercent = 100;

std::optional<Number> count_in_base_unit(figures::Unit unit, uint64_t count) {
  switch (unit) {
    case figures::Unit::kPercent:
      if (count > kWholePercent) return std::nullopt;
      return static_cast<double>(count) / 100.0;
    case figures::Unit::kMilliwatts:
      return static_cast<double>(count) / 1e3;
    case figures::Unit::kMegahertz:
      return count * 1'000'000;
    case figures::Unit::kNanoseconds:
      return static_cast<double>(count) / 1e9;
    default:
      return count;
  }
}

// The labels, and values under names that have spaces between them.
Labels with_each(Labels labels, std::string_view names, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const size_t end = std::min(names.find(' '), names.size());
    labels = labels.with(names.substr(0, end), value);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return labels;
}

std::optional<uint64_t> number_in(const figures::Value& value) {
  const auto* number = std::get_if<uint64_t>(&value);
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

// Unknown above the limit.
figures::Value at_most(const figures::Value& value, const std::optional<uint64_t>& limit) {
  const auto number = number_in(value);
  return number && limit && *number > *limit ? figures::Value() : value;
}

std::optional<Number> in_base_unit(figures::Unit unit, const figures::Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return uint64_t{*flag};
  if (const auto* difference = std::get_if<int64_t>(&value)) return *difference;
  if (const auto* ratio = std::get_if<double>(&value)) return *ratio;
  const auto count = number_in(value);
  return count ? count_in_base_unit(unit, *count) : std::nullopt;
}

// The value of a figure, unless it is a number above its limit. Memory of a device is no more than
// the device has.
template <typename T>
figures::Value bounded(const figures::Figure<T>& figure, const T& object,
                       const std::optional<uint64_t>& device_bytes) {
  if (!figure.value) return {};
  const std::optional<uint64_t> most = figure.is_of_device ? device_bytes : std::nullopt;
  std::optional<uint64_t> limit;
  if (figure.limit) limit = number_in(at_most(figure.limit(object), most));
  return at_most(figure.value(object), limit ? limit : most);
}

// Adds the metrics of an object; `device_bytes` is the memory of the device that it is a part of.
template <typename T>
void add_figures(const T& object, const std::optional<uint64_t>& device_bytes, const Labels& labels,
                 Families& families) {
  static const auto kShown = figures::arranged<T>(&figures::Figure<T>::metric);
  for (const figures::Figure<T>* figure : kShown) {
    const figures::MetricCell<T>& cell = figure->metric;
    const Metric metric{cell.name, cell.kind, cell.help};
    if (cell.points != nullptr) {
      for (const figures::Point& point : cell.points(object))
        families.add(metric, with_each(labels, cell.labels, point.labels),
                     in_base_unit(figure->unit, point.number));
    } else if (!cell.unless || !number_in(cell.unless(object))) {
      families.add(metric, with_each(labels, cell.labels, {std::string(cell.label_value)}),
                   in_base_unit(figure->unit, bounded(*figure, object, device_bytes)));
    }
  }
}

// There the domain has eight digits: "00000000:19:00.0".
std::string long_pci_id(std::string pci_id) {
  for (char& letter : pci_id)
    if (letter >= 'a' && letter <= 'f') letter = static_cast<char>(letter - 'a' + 'A');
  return "0000" + pci_id;
}

// The host's name has an initial capital in older releases and none in newer ones.
Labels labels_of(const watch::Device& device, const std::string& host) {
  const gpu::DeviceIdentity& identity = device.identity;
  const std::string number = std::to_string(identity.index);
  return Labels()
      .with("gpu", number)
      .with("UUID", identity.uuid.value_or(""))
      .with("pci_bus_id", identity.pci_id ? long_pci_id(*identity.pci_id) : "")
      .with("device", "nvidia" + number)
      .with("modelName", identity.name.value_or(""))
      .with("Hostname", host)
      .with("hostname", host)
      .with("DCGM_FI_DRIVER_VERSION", identity.driver.value_or(""));
}

// MiB, %, MHz, C, W.
std::optional<Number> in_dcgm_unit(figures::Unit unit, const figures::Value& value) {
  const auto number = number_in(value);
  if (number && unit == figures::Unit::kBytes) return *number / kMiB;
  return in_base_unit(unit == figures::Unit::kMilliwatts ? unit : figures::Unit::kNumber, value);
}

template <typename T>
void add_dcgm_figures(const T& object, const std::optional<uint64_t>& device_bytes,
                      const Labels& labels, const std::set<std::string_view>& left_out,
                      Families& families) {
  static const auto kShown = figures::arranged<T>(&figures::Figure<T>::dcgm);
  for (const figures::Figure<T>* figure : kShown) {
    const figures::DcgmCell<T>& cell = figure->dcgm;
    if (left_out.contains(cell.name)) continue;
    const Metric metric{cell.name, cell.kind, cell.help};
    if (cell.points != nullptr) {
      for (const figures::Point& point : cell.points(object))
        families.add(metric, with_each(labels, cell.labels, point.labels), Number(point.number));
    } else {
      families.add(metric, labels,
                   in_dcgm_unit(figure->unit, bounded(*figure, object, device_bytes)));
    }
  }
}

// A GPU in parts has a figure for each part, and none of the whole that would count them twice.
std::set<std::string_view> names_of_parts() {
  std::set<std::string_view> names;
  for (const auto* figure :
       figures::arranged<gpu::MigInstance>(&figures::Figure<gpu::MigInstance>::dcgm))
    names.insert(figure->dcgm.name);
  return names;
}

void add_parts(const watch::Device& device, const Labels& labels, Families& families) {
  std::set<uint32_t> counted;
  for (const gpu::MigInstance& instance : device.health.mig_instances) {
    if (!counted.insert(instance.gpu_instance).second) continue;
    add_dcgm_figures(instance, device.sample.memory.total_bytes,
                     labels.with("GPU_I_PROFILE", instance.profile.value_or(""))
                         .with("GPU_I_ID", std::to_string(instance.gpu_instance)),
                     {}, families);
  }
}

}  // namespace

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

namespace {

using enum watch::figures::Kind;
using Bytes = std::optional<uint64_t>;

// Of nothing it is 0, and with one part unknown it is unknown.
struct Sum {
  Bytes bytes = 0;
  void add(const Bytes& part) { bytes = watch::plus(bytes, part); }
};

Bytes total_of(const watch::Snapshot& snapshot, const watch::Use& use) {
  return snapshot.devices[use.device].sample.memory.total_bytes;
}

template <typename Visit>
void for_each_use(const watch::Snapshot& snapshot, const watch::Process& process, Visit visit) {
  for (const watch::Use& use : process.uses) {
    if (use.device < snapshot.devices.size()) visit(use);
  }
}

// What the allocators of a device's processes say, together.
struct AllocatorSums {
  Sum allocated;
  Sum reserved;
  Sum cached;
};

void add_allocators(const watch::Snapshot& snapshot, const std::vector<Labels>& devices,
                    Families& families) {
  std::map<uint32_t, AllocatorSums> sums;
  for (const watch::Process& process : snapshot.processes) {
    for_each_use(snapshot, process, [&](const watch::Use& use) {
      if (!use.allocator) return;
      AllocatorSums& sum = sums[use.device];
      sum.allocated.add(use.allocator->allocated_bytes);
      sum.reserved.add(use.allocator->reserved_bytes);
      sum.cached.add(use.allocator->cached_bytes);
    });
  }
  for (const auto& [place, sum] : sums) {
    const Labels& labels = devices[place];
    const Bytes limit = snapshot.devices[place].sample.memory.total_bytes;
    families.add({"vram_gpu_allocator_allocated_bytes", kGauge,
                  "In tensors, over all processes that say so: the board."},
                 labels, watch::at_most(sum.allocated.bytes, limit));
    families.add({"vram_gpu_allocator_reserved_bytes", kGauge,
                  "Taken from the driver by allocators, over all processes that say so: the "
                  "board."},
                 labels, watch::at_most(sum.reserved.bytes, limit));
    families.add({"vram_gpu_allocator_cached_bytes", kGauge,
                  "Reserved by allocators and in no tensor, which emptying caches would give back, "
                  "over all processes that say so: the board."},
                 labels, watch::at_most(sum.cached.bytes, limit));
  }
}

void add_pods(const watch::Snapshot& snapshot, const std::vector<Labels>& devices,
              Families& families) {
  struct PodSum {
    Sum used;
    const watch::Pod* pod = nullptr;
  };
  std::map<std::pair<uint32_t, std::string>, PodSum> sums;
  for (const watch::Process& process : snapshot.processes) {
    for_each_use(snapshot, process, [&](const watch::Use& use) {
      if (!process.facts->pod) return;
      PodSum& sum = sums[{use.device, process.facts->pod->uid}];
      sum.used.add(use.process.used_bytes);
      const bool is_named = sum.pod != nullptr && sum.pod->name.has_value();
      if (!is_named) sum.pod = &*process.facts->pod;
    });
  }
  for (const auto& [key, sum] : sums) {
    const Labels labels = devices[key.first]
                              .with("namespace", sum.pod->space.value_or(""))
                              .with("pod", sum.pod->name.value_or(""))
                              .with("pod_uid", sum.pod->uid);
    families.add(
        {"vram_pod_memory_used_bytes", kGauge,
         "Memory of a pod's processes on the GPU: the driver's figures, summed by "
         "control group. A GPU that pods share has a series for each."},
        labels,
        watch::at_most(sum.used.bytes, snapshot.devices[key.first].sample.memory.total_bytes));
  }
}

void add_hidden(const watch::Snapshot& snapshot, const std::vector<Labels>& devices,
                Families& families) {
  std::vector<Sum> sums(devices.size());
  for (const watch::Process& process : snapshot.processes) {
    if (is_visible(*process.facts)) continue;
    for_each_use(snapshot, process,
                 [&](const watch::Use& use) { sums[use.device].add(use.process.used_bytes); });
  }
  for (size_t place = 0; place < devices.size(); ++place) {
    const gpu::DeviceSample& sample = snapshot.devices[place].sample;
    if (!sample.processes) continue;
    families.add({"vram_gpu_hidden_process_memory_bytes", kGauge,
                  "Memory of processes that the driver names and /proc does not have: gone, or "
                  "in another pid namespace."},
                 devices[place], watch::at_most(sums[place].bytes, sample.memory.total_bytes));
  }
}

Labels instance_labels(const gpu::DeviceProcess& process, const Labels& labels) {
  const auto text = [](const std::optional<uint32_t>& number) {
    return number ? std::to_string(*number) : "";
  };
  return labels.with("pid", std::to_string(process.pid))
      .with("gi", text(process.gpu_instance))
      .with("ci", text(process.compute_instance));
}

// The largest first; the pid decides between equals, so that series don't come and go.
std::vector<const watch::Process*> by_memory(const watch::Snapshot& snapshot) {
  std::vector<std::pair<uint64_t, const watch::Process*>> ranked;
  for (const watch::Process& process : snapshot.processes) {
    uint64_t bytes = 0;
    for_each_use(snapshot, process, [&](const watch::Use& use) {
      const Bytes used = watch::at_most(use.process.used_bytes, total_of(snapshot, use));
      bytes = watch::plus(bytes, used.value_or(0)).value_or(bytes);
    });
    ranked.emplace_back(bytes, &process);
  }
  std::ranges::sort(ranked, [](const auto& a, const auto& b) {
    return std::tuple(b.first, a.second->facts->pid) < std::tuple(a.first, b.second->facts->pid);
  });
  std::vector<const watch::Process*> processes;
  for (const auto& entry : ranked) processes.push_back(entry.second);
  return processes;
}

void add_process(const watch::Snapshot& snapshot, const watch::Process& process,
                 const std::vector<Labels>& devices, Families& families) {
  const Labels pid = Labels().with("pid", std::to_string(process.facts->pid));
  add_figures(process, std::nullopt, pid, families);
  for_each_use(snapshot, process, [&](const watch::Use& use) {
    add_figures(use, total_of(snapshot, use), instance_labels(use.process, devices[use.device]),
                families);
  });
}

}  // namespace

void add_sums(const watch::Snapshot& snapshot, const std::vector<Labels>& devices,
              Families& families) {
  add_allocators(snapshot, devices, families);
  add_pods(snapshot, devices, families);
  add_hidden(snapshot, devices, families);
}

void add_processes(const watch::Snapshot& snapshot, const std::vector<Labels>& devices,
                   uint32_t limit, Families& families) {
  const auto processes = by_memory(snapshot);
  std::vector<Sum> others(devices.size());
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    if (rank < limit) {
      add_process(snapshot, *processes[rank], devices, families);
      continue;
    }
    for_each_use(snapshot, *processes[rank],
                 [&](const watch::Use& use) { others[use.device].add(use.process.used_bytes); });
  }
  for (size_t place = 0; place < devices.size(); ++place) {
    const gpu::DeviceSample& sample = snapshot.devices[place].sample;
    if (!sample.processes) continue;
    families.add({"vram_gpu_other_process_memory_bytes", kGauge,
                  "Memory of the processes that have no series of their own."},
                 devices[place], watch::at_most(others[place].bytes, sample.memory.total_bytes));
  }
}

void add_dcgm(const watch::Snapshot& snapshot, Families& families) {
  static const std::set<std::string_view> kOfParts = names_of_parts();
  for (const watch::Device& device : snapshot.devices) {
    if (device.identity.vendor != gpu::Vendor::kNvidia) continue;
    const Labels labels = labels_of(device, snapshot.host);
    add_parts(device, labels, families);
    add_dcgm_figures(device, std::nullopt, labels,
                     device.health.mig_instances.empty() ? std::set<std::string_view>() : kOfParts,
                     families);
  }
}

}  // namespace vram::show::metrics
