// What a device is and how it is set up. See figure.hpp.
#pragma once

#include "watch/figures/computed.hpp"

#include <array>

namespace vram::watch::figures {

inline constexpr auto kIdentityFigures = std::to_array<Figure<Device>>({
    {.metric = {.name = "vram_gpu_info",
                .kind = Kind::kInfo,
                .help =
                    "What the GPU is, to be joined by uuid. index is its position in this sample.",
                .labels = "index name vendor driver pci_id",
                .points = device_info}},
    {.key = "index",
     .value = kIdentity<&DeviceIdentity::index>,
     .meaning = "its number in every `use`; may change with a reboot, unlike `uuid` and `pci_id`",
     .csv = {.name = "device"}},
    {.key = "vendor",
     .value = kRead<vendor_of>,
     .words = kVendors,
     .meaning = "`\"nvidia\"`, `\"amd\"` or `\"intel\"`; `\"simulated\"` for a recording that is "
                "played back",
     .detail = {.section = Section::kIdentity, .name = "vendor"}},
    {.key = "name",
     .value = kIdentity<&DeviceIdentity::name>,
     .meaning = "the product's name",
     .detail = {.section = Section::kIdentity, .name = "name"},
     .csv = {.name = "device_name"}},
    {.key = "uuid",
     .value = kIdentity<&DeviceIdentity::uuid>,
     .meaning = "the driver's unique name of this device",
     .detail = {.section = Section::kIdentity, .name = "UUID"},
     .csv = {.name = "device_uuid"}},
    {.key = "pci_id",
     .value = kIdentity<&DeviceIdentity::pci_id>,
     .meaning = "its PCI address, such as `\"0000:19:00.0\"`",
     .detail = {.section = Section::kIdentity, .name = "PCI"},
     .csv = {.name = "device_pci_id"}},
    {.key = "driver",
     .value = kIdentity<&DeviceIdentity::driver>,
     .meaning = "the driver's version",
     .detail = {.section = Section::kIdentity, .name = "driver"}},
    {.key = "compute_capability",
     .value = kIdentity<&DeviceIdentity::compute_capability>,
     .meaning = "CUDA's compute capability of the device, such as `\"9.0\"`",
     .detail = {.section = Section::kIdentity, .name = "compute capability", .is_optional = true}},
    {.key = "tensor_core_formats",
     .value = kRead<formats_of>,
     .meaning = "the number formats in which its tensor cores multiply, such as `\"FP16\"`, by its "
                "compute capability and NVIDIA's CUDA C++ Programming Guide; empty if it has none; "
                "null for AMD and Intel, whose drivers do not report it",
     .detail = {.section = Section::kIdentity, .name = "tensor cores", .is_optional = true}},
    {.key = "numa_node",
     .value = kIdentity<&DeviceIdentity::numa_node>,
     .meaning = "the NUMA node that it is nearest to",
     .detail = {.section = Section::kIdentity, .name = "NUMA node"}},
    {.key = "power_limit_milliwatts",
     .value = kIdentity<&DeviceIdentity::power_limit_milliwatts>,
     .unit = Unit::kMilliwatts,
     .meaning = "the limit of its power",
     .detail = {.section = Section::kActivity, .name = "power limit", .after = "power"},
     .metric = {.name = "vram_gpu_power_limit_watts",
                .after = "vram_gpu_power_watts",
                .help = "Power that it may draw: NVML nvmlDeviceGetEnforcedPowerLimit; hwmon "
                        "power1_cap."},
     .dcgm = {.name = "DCGM_FI_DEV_POWER_MGMT_LIMIT",
              .after = "DCGM_FI_DEV_POWER_USAGE",
              .help = "Power that it may draw (in W)."}},
    {.value = kRead<is_up>,
     .metric = {.name = "vram_gpu_up",
                .help = "0: the driver gave an error for this GPU (lost, reset required, "
                        "unloaded, …)."}},
    {.key = "is_asleep",
     .value = kSample<&DeviceSample::is_asleep>,
     .meaning = "whether it is powered down; vram does not wake it, so nothing else is known",
     .csv = {.name = "device_is_asleep", .after = "device_power_milliwatts"},
     .metric = {.name = "vram_gpu_asleep",
                .help = "1: powered down, and not woken to be asked: power/runtime_status."}},
    {.key = "error",
     .value = kSample<&DeviceSample::trouble>,
     .meaning = "why it reported nothing; null if it did report",
     .csv = {.name = "device_error", .after = "device_is_asleep"},
     .metric = {.name = "vram_gpu_error_info",
                .kind = Kind::kInfo,
                .help = "Why the GPU is not up: the driver's message.",
                .labels = "error",
                .points = trouble_info}},
});

inline constexpr auto kModeFigures = std::to_array<Figure<Device>>({
    {.key = "compute_mode",
     .value = kHealth<&DeviceHealth::compute_mode>,
     .meaning = "`\"default\"`, `\"exclusive process\"` or `\"prohibited\"`",
     .detail = {.section = Section::kIdentity, .name = "compute mode"}},
    {.key = "is_persistent",
     .value = kHealth<&DeviceHealth::is_persistent>,
     .meaning = "whether the driver stays loaded while no program uses it",
     .detail = {.section = Section::kIdentity, .name = "persistence"},
     .metric = {.name = "vram_gpu_persistence_enabled",
                .help = "1: the driver stays loaded while no program uses it: NVML "
                        "nvmlDeviceGetPersistenceMode."}},
    {.key = "is_mig",
     .value = kHealth<&DeviceHealth::is_mig>,
     .meaning = "whether the device is divided by MIG",
     .detail = {.section = Section::kIdentity, .name = "MIG"},
     .metric = {.name = "vram_gpu_mig_enabled",
                .help = "1: the GPU may be divided: NVML nvmlDeviceGetMigMode."}},
    {.key = "mig_instances",
     .value = kHealth<&DeviceHealth::mig_instances>,
     .meaning = "every `instance`"},
});

}  // namespace vram::watch::figures
