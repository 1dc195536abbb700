#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
namespace {

constexpr auto kContainerCases = std::to_array<Case>(
    {{"container.no_gpu_given",
      [](Facts& f) {
        put_into_container(f);
        take_nodes_away(f);
      },
      put_into_container},
     {"container.hidden_by_variable",
      [](Facts& f) {
        put_into_container(f);
        take_nodes_away(f);
        set(f, "NVIDIA_VISIBLE_DEVICES", "void");
      },
      [](Facts& f) {
        put_into_container(f);
        take_nodes_away(f);
        set(f, "NVIDIA_VISIBLE_DEVICES", "all");
      }},
     {"container.kubernetes_no_gpu",
      [](Facts& f) {
        put_into_container(f);
        f.container.runtime = "kubernetes";
        take_nodes_away(f);
      },
      [](Facts& f) {
        put_into_container(f);
        f.container.runtime = "kubernetes";
      }},
     {"container.capabilities",
      [](Facts& f) {
        put_into_container(f);
        break_cuda(f, 0);
        f.nvidia.cuda.load_error = "no such file";
        set(f, "NVIDIA_DRIVER_CAPABILITIES", "utility");
      },
      [](Facts& f) {
        put_into_container(f);
        break_cuda(f, 0);
        set(f, "NVIDIA_DRIVER_CAPABILITIES", "compute,utility");
      }},
     {"container.devices_lost",
      [](Facts& f) {
        put_into_container(f);
        break_nvml(f, 999);
      },
      [](Facts& f) { break_nvml(f, 999); }},
     {"container.no_dri",
      [](Facts& f) {
        put_into_container(f);
        have_amd(f, 0);
        f.drm[0].node.exists = false;
      },
      [](Facts& f) {
        put_into_container(f);
        have_amd(f, 0);
      }},
     {"container.small_shm",
      [](Facts& f) {
        put_into_container(f);
        f.shared_memory.total_bytes = 64 * kMiB;
      },
      [](Facts& f) {
        put_into_container(f);
        f.shared_memory.total_bytes = 65 * kMiB;
      }},
     {"container.memory_limit", [](Facts& f) { f.container.memory_limit_bytes = 140 * kGiB; },
      [](Facts& f) { f.container.memory_limit_bytes = 141 * kGiB; }},
     {"container.pid_namespace",
      [](Facts& f) {
        put_into_container(f);
        f.container.is_host_pid_namespace = false;
      },
      put_into_container},
     {"container.good", put_into_container, nothing}});

}  // namespace

std::span<const Case> container_cases() { return kContainerCases; }

namespace {

constexpr auto kPermissionCases = std::to_array<Case>(
    {{"permissions.nodes_missing", take_nodes_away,
      [](Facts& f) {
        put_into_container(f);
        take_nodes_away(f);
      }},
     {"permissions.uvm_missing",
      [](Facts& f) {
        std::erase_if(f.nvidia.nodes,
                      [](const DeviceNode& node) { return node.path == "/dev/nvidia-uvm"; });
        break_cuda(f, 999);
      },
      [](Facts& f) { break_cuda(f, 999); }},
     {"permissions.nvidia_denied", [](Facts& f) { f.nvidia.nodes[0].refused = EACCES; },
      [](Facts& f) { f.nvidia.nodes[0].refused = EPERM; }},
     {"permissions.dri_denied", [](Facts& f) { have_amd(f, EACCES); },
      [](Facts& f) { have_amd(f, 0); }},
     {"permissions.kfd_denied", [](Facts& f) { have_amd(f, EACCES); },
      [](Facts& f) { have_amd(f, 0); }},
     {"permissions.shared_memory", [](Facts& f) { f.shared_memory.is_writable = false; }, nothing},
     {"permissions.board_folder",
      [](Facts& f) {
        f.boards = {{.path = "/dev/shm/vram-1000", .exists = true, .uid = 1000U, .mode = 0755U}};
      },
      [](Facts& f) {
        f.boards = {{.path = "/dev/shm/vram-1000", .exists = true, .uid = 1000U, .mode = 0700U}};
      }},
     {"permissions.processes_hidden", [](Facts& f) { f.platform.hides_processes = true; },
      [](Facts& f) {
        f.platform.hides_processes = true;
        f.process.uid = 0;
      }},
     {"permissions.ptrace",
      [](Facts& f) {
        f.platform.ptrace_scope = 1;
        torch(f, "expandable_segments:True");
      },
      [](Facts& f) { f.platform.ptrace_scope = 1; }},
     {"permissions.environment_hidden",
      [](Facts& f) {
        f.process.pid = 77;
        f.process.is_environment_known = false;
      },
      [](Facts& f) { f.process.pid = 77; }},
     {"permissions.good", nothing, [](Facts& f) { f.nvidia.nodes[0].refused = EACCES; }}});

}  // namespace

std::span<const Case> permission_cases() { return kPermissionCases; }

namespace {

constexpr auto kPlatformCases = std::to_array<Case>(
    {{"platform.no_gpu",
      [](Facts& f) {
        take_driver_away(f);
        f.gpus.clear();
      },
      [](Facts& f) { take_driver_away(f); }},
     {"platform.gpu_passthrough", [](Facts& f) { f.gpus[1].driver = "vfio-pci"; }, nothing},
     {"platform.gpu_without_driver",
      [](Facts& f) {
        have_amd(f, 0);
        f.gpus[0].driver.clear();
      },
      [](Facts& f) { have_amd(f, 0); }},
     {"platform.old_kernel",
      [](Facts& f) {
        have_amd(f, 0);
        f.platform.kernel = "5.13.19-generic";
      },
      [](Facts& f) {
        have_amd(f, 0);
        f.platform.kernel = "5.14.0-generic";
      }},
     {"platform.unified_memory", [](Facts& f) { first_device(f).identity.name = "NVIDIA GB10"; },
      [](Facts& f) { first_device(f).identity.name = "NVIDIA GB200"; }},
     {"platform.wsl_no_gpu_device",
      [](Facts& f) {
        be_a_wsl(f);
        f.platform.has_dxg = false;
      },
      be_a_wsl},
     {"platform.wsl_library_path",
      [](Facts& f) {
        be_a_wsl(f);
        f.nvidia.nvml.load_error = "not found";
      },
      be_a_wsl},
     {"platform.wsl_old_kernel",
      [](Facts& f) {
        be_a_wsl(f);
        f.platform.kernel = "5.10.16.3-microsoft-standard-WSL2";
      },
      [](Facts& f) {
        be_a_wsl(f);
        f.platform.kernel = "5.10.43.3-microsoft-standard-WSL2";
      }},
     {"platform.wsl_linux_driver",
      [](Facts& f) {
        be_a_wsl(f);
        f.nvidia.libraries = {{"/usr/lib/libcuda.so.535.54.03", "libcuda", "535.54.03"}};
      },
      be_a_wsl},
     {"platform.wsl_no_process_memory", be_a_wsl, nothing}});

}  // namespace

std::span<const Case> platform_cases() { return kPlatformCases; }

}  // namespace vram::doctor::testing
