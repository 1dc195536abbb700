// The names and labels of dcgm-exporter 4.5 to 4.8 (of DCGM before 4.6, which renames many), for
// dashboards and rules that were made for it. Its units, too: MiB without a fraction, MHz, percent.
// NVIDIA's devices only. See parts.hpp.
#include "base/bytes.hpp"
#include "show/metrics/parts.hpp"
#include "watch/bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace vram::show::metrics {
namespace {

using enum Kind;

std::optional<uint64_t> mib_of(const std::optional<uint64_t>& bytes) {
  return bytes ? std::optional(*bytes / kMiB) : std::nullopt;
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

void add_framebuffer(const gpu::DeviceMemory& memory, std::optional<uint64_t> limit,
                     const Labels& labels, Families& families) {
  const auto total = watch::at_most(memory.total_bytes, limit);
  const auto bound = total ? total : limit;
  const auto used = watch::at_most(memory.used_bytes, bound);
  const auto reserved = watch::at_most(memory.reserved_bytes, bound);
  families.add({"DCGM_FI_DEV_FB_TOTAL", kGauge, "Memory (in MiB)."}, labels, mib_of(total));
  families.add({"DCGM_FI_DEV_FB_FREE", kGauge, "Free memory (in MiB)."}, labels,
               mib_of(watch::at_most(memory.free_bytes, bound)));
  families.add({"DCGM_FI_DEV_FB_USED", kGauge, "Memory used by programs (in MiB)."}, labels,
               mib_of(used));
  families.add({"DCGM_FI_DEV_FB_RESERVED", kGauge, "Memory that the driver keeps (in MiB)."},
               labels, mib_of(reserved));
  if (!total || !used || !reserved || *used > *total - *reserved || *total == *reserved) return;
  families.add({"DCGM_FI_DEV_FB_USED_PERCENT", kGauge, "Used of what is not reserved (0 to 1)."},
               labels,
               Number(static_cast<double>(*used) / static_cast<double>(*total - *reserved)));
}

// A GPU in parts has a figure for each part, and none of the whole that would count them twice.
void add_memory_of(const watch::Device& device, const Labels& labels, Families& families) {
  const auto& instances = device.health.mig_instances;
  const auto total = device.sample.memory.total_bytes;
  if (instances.empty()) return add_framebuffer(device.sample.memory, total, labels, families);
  std::set<uint32_t> counted;
  for (const gpu::MigInstance& instance : instances) {
    if (!counted.insert(instance.gpu_instance).second) continue;
    add_framebuffer(instance.memory, total,
                    labels.with("GPU_I_PROFILE", instance.profile.value_or(""))
                        .with("GPU_I_ID", std::to_string(instance.gpu_instance)),
                    families);
  }
}

void add_sample(const watch::Device& device, const Labels& labels, Families& families) {
  const gpu::DeviceSample& sample = device.sample;
  families.add({"DCGM_FI_DEV_GPU_UTIL", kGauge, "Utilization (in %)."}, labels,
               sample.busy_percent);
  families.add({"DCGM_FI_PROF_GR_ENGINE_ACTIVE", kGauge,
                "Utilization (0 to 1), as NVML has it: the profiler is not asked."},
               labels, ratio_of(sample.busy_percent));
  families.add({"DCGM_FI_DEV_MEM_COPY_UTIL", kGauge,
                "Share of time in which memory was read or written (in %)."},
               labels, sample.memory_busy_percent);
  families.add({"DCGM_FI_DEV_SM_CLOCK", kGauge, "Clock of the cores (in MHz)."}, labels,
               sample.core_mhz);
  families.add({"DCGM_FI_DEV_MEM_CLOCK", kGauge, "Clock of the memory (in MHz)."}, labels,
               sample.memory_mhz);
  families.add({"DCGM_FI_DEV_GPU_TEMP", kGauge, "Temperature of the chip (in C)."}, labels,
               sample.celsius);
  families.add({"DCGM_FI_DEV_MEMORY_TEMP", kGauge, "Temperature of the memory (in C)."}, labels,
               device.health.memory_celsius);
  families.add({"DCGM_FI_DEV_POWER_USAGE", kGauge, "Power drawn (in W)."}, labels,
               watts_of(sample.milliwatts));
  families.add({"DCGM_FI_DEV_POWER_MGMT_LIMIT", kGauge, "Power that it may draw (in W)."}, labels,
               watts_of(device.identity.power_limit_milliwatts));
  families.add({"DCGM_FI_PROF_PCIE_TX_BYTES", kGauge, "Bytes a second sent over PCIe."}, labels,
               device.pcie_sent_bytes_per_second);
  families.add({"DCGM_FI_PROF_PCIE_RX_BYTES", kGauge, "Bytes a second received over PCIe."}, labels,
               device.pcie_received_bytes_per_second);
}

void add_dcgm_bar1(const gpu::DeviceHealth& health, const Labels& labels, Families& families) {
  if (!health.bar1) return;
  const auto total = health.bar1->total_bytes;
  families.add({"DCGM_FI_DEV_BAR1_TOTAL", kGauge, "BAR1 (in MiB)."}, labels, mib_of(total));
  families.add({"DCGM_FI_DEV_BAR1_USED", kGauge, "BAR1 used (in MiB)."}, labels,
               mib_of(watch::at_most(health.bar1->used_bytes, total)));
  families.add({"DCGM_FI_DEV_BAR1_FREE", kGauge, "BAR1 free (in MiB)."}, labels,
               mib_of(watch::at_most(health.bar1->free_bytes, total)));
}

void add_pages(const gpu::RetiredPages& pages, const Labels& labels, Families& families) {
  families.add({"DCGM_FI_DEV_RETIRED_SBE", kForeignCounter, "Pages retired for corrected errors."},
               labels, pages.corrected);
  families.add(
      {"DCGM_FI_DEV_RETIRED_DBE", kForeignCounter, "Pages retired for uncorrected errors."}, labels,
      pages.uncorrected);
  families.add(
      {"DCGM_FI_DEV_RETIRED_PENDING", kGauge, "1: a bad page is in use until the next reset."},
      labels, flag_of(pages.is_pending));
}

void add_errors(const gpu::DeviceHealth& health, const Labels& labels, Families& families) {
  families.add({"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", kForeignCounter,
                "Corrected memory errors since the driver was loaded."},
               labels, health.ecc_since_boot.corrected);
  families.add({"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", kForeignCounter,
                "Uncorrected memory errors since the driver was loaded."},
               labels, health.ecc_since_boot.uncorrected);
  families.add({"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", kForeignCounter,
                "Corrected memory errors in the GPU's life."},
               labels, health.ecc_ever.corrected);
  families.add({"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", kForeignCounter,
                "Uncorrected memory errors in the GPU's life."},
               labels, health.ecc_ever.uncorrected);
  if (health.retired_pages) add_pages(*health.retired_pages, labels, families);
  if (!health.remapped_rows) return;
  const gpu::RemappedRows& rows = *health.remapped_rows;
  families.add({"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", kForeignCounter,
                "Rows replaced for uncorrected errors."},
               labels, std::optional(rows.uncorrected));
  families.add({"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", kForeignCounter,
                "Rows replaced for corrected errors."},
               labels, std::optional(rows.corrected));
  families.add({"DCGM_FI_DEV_ROW_REMAP_FAILURE", kGauge, "1: a row could not be replaced."}, labels,
               flag_of(rows.has_failed));
  families.add({"DCGM_FI_DEV_ROW_REMAP_PENDING", kGauge, "1: a row is replaced at the next reset."},
               labels, flag_of(rows.is_pending));
}

// There it is the number of the last one, and stays.
void add_last_xid(const watch::Device& device, const Labels& labels, Families& families) {
  if (!device.xids) return;
  const auto last = std::ranges::max_element(*device.xids, {}, &watch::XidCount::last_time_ns);
  const uint64_t number = last == device.xids->end() ? 0 : last->xid;
  families.add({"DCGM_FI_DEV_XID_ERRORS", kGauge, "The last Xid; 0: none so far."},
               number == 0 ? labels : labels.with("err_code", std::to_string(number)),
               Number(number));
}

}  // namespace

void add_dcgm(const watch::Snapshot& snapshot, Families& families) {
  for (const watch::Device& device : snapshot.devices) {
    if (device.identity.vendor != gpu::Vendor::kNvidia) continue;
    const Labels labels = labels_of(device, snapshot.host);
    add_memory_of(device, labels, families);
    add_sample(device, labels, families);
    add_dcgm_bar1(device.health, labels, families);
    add_errors(device.health, labels, families);
    add_last_xid(device, labels, families);
  }
}

}  // namespace vram::show::metrics
