#include "doctor/examine.hpp"

#include "base/result.hpp"
#include "doctor/checks/checks.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>
#include <utility>

namespace vram::doctor {
namespace {

constexpr auto kIds = std::to_array<std::string_view>({
    "platform.no_gpu",
    "platform.gpu_passthrough",
    "platform.gpu_without_driver",
    "platform.old_kernel",
    "platform.unified_memory",
    "platform.wsl_no_gpu_device",
    "platform.wsl_library_path",
    "platform.wsl_old_kernel",
    "platform.wsl_linux_driver",
    "platform.wsl_no_process_memory",
    "driver.nouveau",
    "driver.not_built",
    "driver.not_loaded",
    "driver.version_mismatch",
    "driver.library_missing",
    "driver.nvml_failed",
    "driver.hangs",
    "driver.cuda_missing",
    "driver.cuda_failed",
    "driver.libraries_differ",
    "driver.old",
    "driver.unsupported_gpu",
    "driver.gpu_missing",
    "driver.gpu_fell_off",
    "driver.good",
    "driver.formats",
    "permissions.nodes_missing",
    "permissions.uvm_missing",
    "permissions.nvidia_denied",
    "permissions.dri_denied",
    "permissions.kfd_denied",
    "permissions.shared_memory",
    "permissions.board_folder",
    "permissions.processes_hidden",
    "permissions.ptrace",
    "permissions.environment_hidden",
    "permissions.good",
    "container.no_gpu_given",
    "container.hidden_by_variable",
    "container.kubernetes_no_gpu",
    "container.capabilities",
    "container.devices_lost",
    "container.no_dri",
    "container.small_shm",
    "container.memory_limit",
    "container.pid_namespace",
    "container.good",
    "mps.prohibited",
    "mps.exclusive_without",
    "mps.limits",
    "mps.stale_pipe",
    "mig.no_instances",
    "mig.one_visible",
    "persistence.off",
    "torch.unknown_key",
    "torch.bad_value",
    "torch.small_split",
    "torch.split_with_expandable",
    "torch.gc_with_expandable",
    "torch.gc_without_fraction",
    "torch.async_ignores",
    "torch.coarse_rounding",
    "torch.two_variables",
    "torch.new_name",
    "torch.not_expandable",
    "torch.no_caching",
    "torch.good",
    "cuda.visible_none",
    "cuda.visible_invalid",
    "cuda.visible_twice",
    "cuda.device_order",
    "cuda.launch_blocking",
    "cuda.cache_disabled",
    "cuda.eager_loading",
    "cuda.preload",
    "cuda.preload_missing",
    "nccl.p2p_disabled",
    "nccl.large_buffers",
    "jax.preallocates",
    "jax.fraction",
    "jax.platform_allocator",
    "tf.takes_all",
    "tf.unknown_allocator",
    "frameworks.both_preallocate",
    "vram.unknown_variable",
    "vram.other_library",
    "limits.address_space",
    "limits.locked_memory",
    "limits.open_files",
    "limits.overcommit",
    "limits.host_memory",
    "health.error",
    "health.recovery",
    "health.ecc",
    "health.row_remap_failed",
    "health.row_remap_pending",
    "health.page_retirement_failed",
    "health.page_retirement_pending",
    "health.throttling",
    "health.small_bar",
    "health.xid",
    "health.xid_unknown",
    "health.zombie",
    "health.idle_holder",
    "health.good",
});

constexpr std::array kChecks = {check_platform,
                                check_wsl,
                                check_module,
                                check_libraries,
                                check_driver_version,
                                check_devices,
                                check_permissions,
                                check_shared_memory,
                                check_container,
                                check_sharing,
                                check_torch,
                                check_visible_devices,
                                check_cuda_environment,
                                check_frameworks,
                                check_vram_environment,
                                check_limits,
                                check_health,
                                check_xids,
                                check_holders};

std::ptrdiff_t place_of(std::string_view id) {
  const auto* const found = std::ranges::find(kIds, id);
  VRAM_CHECK(found != kIds.end());
  return std::distance(kIds.begin(), found);
}

// The subject's place is that of its first id.
std::ptrdiff_t place_of_subject(std::string_view id) {
  const auto* const first = std::ranges::find(kIds, subject_of(id), subject_of);
  return std::distance(kIds.begin(), first);
}

auto key_of(const Finding& finding) {
  return std::tuple(place_of_subject(finding.id), finding.severity, place_of(finding.id));
}

uint32_t usable_gpus(const MachineFacts& facts) {
  const LibraryAnswer& cuda = facts.nvidia.cuda;
  const bool cuda_starts = !cuda.was_asked || (cuda.load_error.empty() && cuda.error == 0);
  const auto is_usable = [&](const watch::Device& device) {
    const bool is_nvidia = device.identity.vendor == gpu::Vendor::kNvidia;
    return !device.sample.trouble && (!is_nvidia || cuda_starts);
  };
  return static_cast<uint32_t>(std::ranges::count_if(devices(facts), is_usable));
}

}  // namespace

std::span<const std::string_view> finding_ids() { return kIds; }

std::string_view subject_of(std::string_view id) { return id.substr(0, id.find('.')); }

Report examine(const MachineFacts& facts) {
  Report report;
  if (facts.snapshot) {
    report.time_ns = facts.snapshot->time_ns;
    report.host = facts.snapshot->host;
  }
  report.usable_gpus = usable_gpus(facts);
  for (const auto& check : kChecks) {
    Findings found = check(facts);
    std::ranges::move(found, std::back_inserter(report.findings));
  }
  std::ranges::stable_sort(report.findings, {}, key_of);
  return report;
}

}  // namespace vram::doctor
