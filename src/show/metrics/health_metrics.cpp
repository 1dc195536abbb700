// How a device is doing, and its MIG instances. See parts.hpp.
#include "show/metrics/parts.hpp"
#include "watch/bounds.hpp"

#include <algorithm>

namespace vram::show::metrics {
namespace {

using enum Kind;

void add_bar1(const gpu::DeviceHealth& health, const Labels& labels, Families& families) {
  if (!health.bar1) return;
  const auto total = health.bar1->total_bytes;
  families.add({"vram_gpu_bar1_total_bytes", kGauge,
                "What the host can address of the memory: NVML nvmlDeviceGetBAR1MemoryInfo; "
                "amdgpu mem_info_vis_vram_total."},
               labels, total);
  families.add({"vram_gpu_bar1_used_bytes", kGauge,
                "Of it, used. On GPUs whose BAR1 is as large as the memory it follows that."},
               labels, watch::at_most(health.bar1->used_bytes, total));
}

void add_ecc(const gpu::DeviceHealth& health, const Labels& labels, Families& families) {
  families.add({"vram_gpu_ecc_corrected_total", kCounter,
                "Corrected memory errors since the driver was loaded: NVML "
                "nvmlDeviceGetTotalEccErrors (volatile); amdgpu ras/umc_err_count."},
               labels, health.ecc_since_boot.corrected);
  families.add({"vram_gpu_ecc_uncorrected_total", kCounter,
                "Uncorrected memory errors since the driver was loaded: NVML "
                "nvmlDeviceGetTotalEccErrors (volatile); amdgpu ras/umc_err_count."},
               labels, health.ecc_since_boot.uncorrected);
  families.add({"vram_gpu_ecc_lifetime_corrected_total", kCounter,
                "Corrected memory errors in the GPU's life: NVML nvmlDeviceGetTotalEccErrors "
                "(aggregate)."},
               labels, health.ecc_ever.corrected);
  families.add({"vram_gpu_ecc_lifetime_uncorrected_total", kCounter,
                "Uncorrected memory errors in the GPU's life: NVML nvmlDeviceGetTotalEccErrors "
                "(aggregate)."},
               labels, health.ecc_ever.uncorrected);
}

void add_rows(const gpu::DeviceHealth& health, const Labels& labels, Families& families) {
  if (!health.remapped_rows) return;
  const gpu::RemappedRows& rows = *health.remapped_rows;
  constexpr Metric kRows{"vram_gpu_remapped_rows_total", kCounter,
                         "Rows of the memory that were replaced, by what was wrong with them: NVML "
                         "nvmlDeviceGetRemappedRows."};
  families.add(kRows, labels.with("cause", "corrected"), std::optional(rows.corrected));
  families.add(kRows, labels.with("cause", "uncorrected"), std::optional(rows.uncorrected));
  families.add({"vram_gpu_row_remap_pending", kGauge,
                "1: a row is replaced at the next reset: NVML nvmlDeviceGetRemappedRows."},
               labels, flag_of(rows.is_pending));
  families.add({"vram_gpu_row_remap_failed", kGauge,
                "1: a row could not be replaced: NVML nvmlDeviceGetRemappedRows."},
               labels, flag_of(rows.has_failed));
}

void add_pages(const gpu::DeviceHealth& health, const Labels& labels, Families& families) {
  if (!health.retired_pages) return;
  const gpu::RetiredPages& pages = *health.retired_pages;
  constexpr Metric kPages{"vram_gpu_retired_pages_total", kCounter,
                          "Pages of the memory that were taken out of use, by what was wrong with "
                          "them: NVML nvmlDeviceGetRetiredPages_v2; amdgpu ras/gpu_vram_bad_pages "
                          "(unknown)."};
  families.add(kPages, labels.with("cause", "corrected"), pages.corrected);
  families.add(kPages, labels.with("cause", "uncorrected"), pages.uncorrected);
  families.add(kPages, labels.with("cause", "unknown"), pages.of_any_cause);
  families.add({"vram_gpu_page_retirement_pending", kGauge,
                "1: a bad page is in use until the next reset: NVML "
                "nvmlDeviceGetRetiredPagesPendingStatus; amdgpu ras/gpu_vram_bad_pages."},
               labels, flag_of(pages.is_pending));
  families.add({"vram_gpu_page_retirement_failed", kGauge,
                "1: a bad page could not be taken out of use: amdgpu ras/gpu_vram_bad_pages."},
               labels, flag_of(pages.has_failed));
}

// A series an action, of which one is 1, so that a rule can name it.
void add_recovery(const gpu::DeviceHealth& health, const Labels& labels, Families& families) {
  if (!health.recovery_action) return;
  constexpr Metric kAction{"vram_gpu_recovery_action", kGauge,
                           "1: the driver asks for this (none: for nothing): NVML field 230."};
  families.add(kAction, labels.with("action", *health.recovery_action), Number(uint64_t{1}));
  for (const std::string_view action : gpu::kRecoveryActions) {
    if (action != *health.recovery_action)
      families.add(kAction, labels.with("action", action), Number(uint64_t{0}));
  }
}

void add_xids(const watch::Device& device, const Labels& labels, Families& families) {
  if (!device.xids) return;
  for (const watch::XidCount& seen : *device.xids) {
    const Labels by_number = labels.with("xid", std::to_string(seen.xid));
    families.add({"vram_gpu_xid_errors_total", kCounter,
                  "Faults that the driver told of since this program watches, by Xid: NVML "
                  "nvmlEventSetWait_v2."},
                 by_number, Number(seen.count));
    if (seen.last_time_ns <= 0) continue;
    families.add({"vram_gpu_xid_last_timestamp_seconds", kGauge,
                  "When the driver last told of the fault, since 1970: this machine's clock."},
                 by_number, Number(seconds_of(static_cast<uint64_t>(seen.last_time_ns))));
  }
}

void add_part_memory(const gpu::DeviceMemory& memory, std::optional<uint64_t> limit,
                     const Labels& labels, Families& families) {
  const auto total = watch::at_most(memory.total_bytes, limit);
  const auto bound = total ? total : limit;
  families.add({"vram_gpu_mig_memory_total_bytes", kGauge,
                "Memory of a GPU instance, which its compute instances share: NVML "
                "nvmlDeviceGetMemoryInfo_v2 of the instance."},
               labels, total);
  families.add({"vram_gpu_mig_memory_used_bytes", kGauge, "Of it, used by programs."}, labels,
               watch::at_most(memory.used_bytes, bound));
  families.add({"vram_gpu_mig_memory_reserved_bytes", kGauge, "Of it, reserved by the driver."},
               labels, watch::at_most(memory.reserved_bytes, bound));
  families.add({"vram_gpu_mig_memory_free_bytes", kGauge, "Of it, free."}, labels,
               watch::at_most(memory.free_bytes, bound));
}

}  // namespace

void add_health(const watch::Device& device, const Labels& labels, Families& families) {
  const gpu::DeviceHealth& health = device.health;
  families.add({"vram_gpu_memory_temperature_celsius", kGauge,
                "Temperature of the memory: NVML field 82; hwmon of amdgpu."},
               labels, health.memory_celsius);
  add_bar1(health, labels, families);
  add_ecc(health, labels, families);
  add_rows(health, labels, families);
  add_pages(health, labels, families);
  add_recovery(health, labels, families);
  add_xids(device, labels, families);
  families.add({"vram_gpu_persistence_enabled", kGauge,
                "1: the driver stays loaded with nobody using it: NVML "
                "nvmlDeviceGetPersistenceMode."},
               labels, flag_of(health.is_persistent));
  families.add(
      {"vram_gpu_mig_enabled", kGauge, "1: the GPU may be divided: NVML nvmlDeviceGetMigMode."},
      labels, flag_of(health.is_mig));
}

void add_mig(const watch::Device& device, const Labels& labels, Families& families) {
  for (const gpu::MigInstance& instance : device.health.mig_instances) {
    const Labels part = labels.with("gi", std::to_string(instance.gpu_instance));
    const Labels info = part.with("ci", std::to_string(instance.compute_instance))
                            .with("mig_uuid", instance.uuid.value_or(""))
                            .with("profile", instance.profile.value_or(""));
    families.add({"vram_gpu_mig_instance_info", kInfo,
                  "A compute instance (ci) of a GPU instance (gi), to be joined by uuid and gi."},
                 info, Number(uint64_t{1}));
    add_part_memory(instance.memory, device.sample.memory.total_bytes, part, families);
  }
}

}  // namespace vram::show::metrics
