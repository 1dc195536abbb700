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

}  // namespace vram::doctor::testing
