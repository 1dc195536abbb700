#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
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
