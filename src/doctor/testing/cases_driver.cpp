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
     {"driver.good", nothing, [](Facts& f) { break_cuda(f, 802); }}});

}  // namespace

std::span<const Case> driver_cases() { return kDriverCases; }

}  // namespace vram::doctor::testing
