#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
namespace {

constexpr auto kDriverCases = std::to_array<Case>(
    {{"driver.nouveau",
      [](Facts& f) {
        take_driver_away(f);
        f.gpus[0].driver = "nouveau";
      },
      take_driver_away},
     {"driver.not_built",
      [](Facts& f) {
        take_driver_away(f);
        f.nvidia.has_module_source = true;
      },
      [](Facts& f) {
        take_driver_away(f);
        f.nvidia.has_module_source = true;
        f.nvidia.has_module_file = true;
      }},
     {"driver.not_loaded", take_driver_away, nothing},
     {"driver.version_mismatch", [](Facts& f) { break_nvml(f, 18); },
      [](Facts& f) { break_nvml(f, 999); }},
     {"driver.library_missing",
      [](Facts& f) {
        break_nvml(f, 0);
        f.nvidia.nvml.load_error = "no such file";
      },
      [](Facts& f) { break_nvml(f, 999); }},
     {"driver.nvml_failed", [](Facts& f) { break_nvml(f, 999); },
      [](Facts& f) { break_nvml(f, 18); }},
     {"driver.hangs",
      [](Facts& f) {
        break_nvml(f, 0);
        f.nvidia.nvml.is_hanging = true;
      },
      nothing},
     {"driver.cuda_missing",
      [](Facts& f) {
        break_cuda(f, 0);
        f.nvidia.cuda.load_error = "no such file";
      },
      nothing},
     {"driver.cuda_failed", [](Facts& f) { break_cuda(f, 802); },
      [](Facts& f) {
        break_cuda(f, 100);
        set(f, "CUDA_VISIBLE_DEVICES", "");
      }},
     {"driver.libraries_differ",
      [](Facts& f) {
        f.nvidia.libraries = {{"/usr/lib/libcuda.so.535.54.03", "libcuda", "535.54.03"},
                              {"/usr/lib64/libcuda.so.580.95.05", "libcuda", "580.95.05"}};
      },
      [](Facts& f) {
        f.nvidia.libraries = {{"/usr/lib/libcuda.so.580.95.05", "libcuda", "580.95.05"},
                              {"/usr/local/cuda/compat/libcuda.so.590.1.1", "libcuda", "590.1.1"},
                              {"/usr/lib/libnvidia-ml.so.580.95.05", "libnvidia-ml", "580.95.05"}};
      }},
     {"driver.old", [](Facts& f) { f.nvidia.nvml.version = "575.57.08"; },
      [](Facts& f) { f.nvidia.nvml.version = "580.65.06"; }},
     {"driver.unsupported_gpu",
      [](Facts& f) {
        f.gpus[1].chip = 0x2b85;  // Blackwell
        f.nvidia.is_open = false;
        f.nvidia.nvml.devices = 1;
      },
      [](Facts& f) {
        f.gpus[1].chip = 0x2b85;
        f.nvidia.nvml.devices = 1;
      }},
     {"driver.gpu_missing", [](Facts& f) { f.nvidia.nvml.devices = 1; },
      [](Facts& f) {
        put_into_container(f);
        f.nvidia.nvml.devices = 1;
      }},
     {"driver.gpu_fell_off", [](Facts& f) { f.gpus[1].is_gone = true; }, nothing},
     {"driver.good", nothing, [](Facts& f) { break_cuda(f, 802); }},
     {"driver.formats", [](Facts& f) { first_device(f).identity.compute_capability = "9.0"; },
      [](Facts& f) { first_device(f).identity.compute_capability = "99.0"; }}});

}  // namespace

std::span<const Case> driver_cases() { return kDriverCases; }

namespace {

constexpr auto kHealthCases = std::to_array<Case>(
    {{"health.error", [](Facts& f) { first_device(f).sample.trouble = "GPU is lost (15)"; },
      nothing},
     {"health.recovery", [](Facts& f) { first_device(f).health.recovery_action = "reset"; },
      nothing},
     {"health.ecc", [](Facts& f) { first_device(f).health.ecc_since_boot.uncorrected = 1; },
      [](Facts& f) { first_device(f).health.ecc_since_boot.corrected = 9; }},
     {"health.row_remap_failed",
      [](Facts& f) { first_device(f).health.remapped_rows->has_failed = true; },
      [](Facts& f) { first_device(f).health.remapped_rows->uncorrected = 1; }},
     {"health.row_remap_pending",
      [](Facts& f) { first_device(f).health.remapped_rows->is_pending = true; }, nothing},
     {"health.page_retirement_failed",
      [](Facts& f) { first_device(f).health.retired_pages.emplace().has_failed = true; },
      [](Facts& f) { first_device(f).health.retired_pages.emplace().of_any_cause = 3; }},
     {"health.page_retirement_pending",
      [](Facts& f) { first_device(f).health.retired_pages.emplace().is_pending = true; },
      [](Facts& f) { first_device(f).health.retired_pages.emplace().is_pending = false; }},
     {"health.throttling",
      [](Facts& f) { first_device(f).sample.throttle_reasons = {"hardware thermal"}; },
      [](Facts& f) { first_device(f).sample.throttle_reasons = {"power cap", "sync boost"}; }},
     {"health.small_bar", [](Facts& f) { first_device(f).health.bar1->total_bytes = 256 * kMiB; },
      nothing},
     {"health.xid", [](Facts& f) { log_xid(f, 79); }, nothing},
     {"health.xid_unknown", [](Facts& f) { f.xids.reset(); }, nothing},
     {"health.zombie", [](Facts& f) { add_holder(f, true, false); },
      [](Facts& f) {
        add_holder(f, true, false);
        f.container.is_host_pid_namespace = false;
      }},
     {"health.idle_holder", [](Facts& f) { add_holder(f, false, true); },
      [](Facts& f) { add_holder(f, false, false); }},
     {"health.good", nothing, [](Facts& f) { first_device(f).sample.is_asleep = true; }}});

}  // namespace

std::span<const Case> health_cases() { return kHealthCases; }

namespace {

constexpr auto kSharingCases = std::to_array<Case>(
    {{"mps.prohibited", [](Facts& f) { first_device(f).health.compute_mode = "prohibited"; },
      nothing},
     {"mps.exclusive_without",
      [](Facts& f) { first_device(f).health.compute_mode = "exclusive process"; },
      [](Facts& f) {
        first_device(f).health.compute_mode = "exclusive process";
        f.mps.processes = 2;
      }},
     {"mps.limits", [](Facts& f) { set(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "20"); },
      [](Facts& f) { set(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"); }},
     {"mps.stale_pipe", [](Facts& f) { f.mps.has_pipe = true; },
      [](Facts& f) {
        f.mps.has_pipe = true;
        f.container.is_host_pid_namespace = false;
      }},
     {"mig.no_instances", [](Facts& f) { be_mig(f, 0); }, [](Facts& f) { be_mig(f, 1); }},
     {"mig.one_visible", [](Facts& f) { be_mig(f, 2); },
      [](Facts& f) {
        be_mig(f, 2);
        set(f, "CUDA_VISIBLE_DEVICES", "MIG-1");
      }},
     {"persistence.off", [](Facts& f) { first_device(f).health.is_persistent = false; },
      [](Facts& f) {
        first_device(f).health.is_persistent = false;
        f.platform.has_display = true;
      }},
     {"limits.address_space", [](Facts& f) { f.process.limits.address_space_bytes = 64 * kGiB; },
      nothing},
     {"limits.locked_memory",
      [](Facts& f) {
        f.platform.has_infiniband = true;
        f.process.limits.locked_bytes = 64 * kKiB;
      },
      [](Facts& f) { f.process.limits.locked_bytes = 64 * kKiB; }},
     {"limits.open_files", [](Facts& f) { f.process.limits.open_files = 1024; }, nothing},
     {"limits.overcommit", [](Facts& f) { f.platform.overcommit = 2; },
      [](Facts& f) { f.platform.overcommit = 1; }},
     {"limits.host_memory", [](Facts& f) { f.platform.memory_bytes = 64 * kGiB; },
      [](Facts& f) {
        f.platform.memory_bytes = 64 * kGiB;
        f.platform.swap_bytes = 77 * kGiB;
      }}});

}  // namespace

std::span<const Case> sharing_cases() { return kSharingCases; }

}  // namespace vram::doctor::testing
