#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
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
