// The names and labels of dcgm-exporter 4.5 to 4.8 (of DCGM before 4.6, which renames many), for
// dashboards and rules that were made for it. Its units, too: MiB without a fraction, MHz, percent.
// NVIDIA's devices only. See parts.hpp.
#include "base/bytes.hpp"
#include "show/metrics/figure_series.hpp"
#include "show/metrics/parts.hpp"

#include <optional>
#include <set>
#include <string_view>
#include <variant>

namespace vram::show::metrics {
namespace {

namespace figures = watch::figures;

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
