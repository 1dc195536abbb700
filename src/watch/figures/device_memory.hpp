// A device's memories. See figure.hpp.
#pragma once

#include "watch/figures/computed.hpp"

#include <array>

namespace vram::watch::figures {

template <auto Member>
inline constexpr auto kMemoryOf = kSample<&DeviceSample::memory, Member>;
template <auto Member>
inline constexpr auto kHostMemoryOf = kSample<&DeviceSample::host_memory, Member>;
template <auto Member>
inline constexpr auto kBar1Of = kHealth<&DeviceHealth::bar1, Member>;

inline constexpr Group<Device> kMemory{
    .key = "memory", .type = &kMemoryType, .meaning = "its `memory`"};
inline constexpr Group<Device> kHostMemory{
    .key = "host_memory",
    .type = &kMemoryType,
    .meaning = "the host's `memory` that it may use as its own (AMD's GTT); null if there is none",
    .is_known = [](const Device& device) {
      const DeviceMemory& host = device.sample.host_memory;
      return host.total_bytes || host.used_bytes;
    }};
inline constexpr Group<Device> kBar1{
    .key = "bar1",
    .type = &kMemoryType,
    .meaning = "the `memory` that the host can address",
    .is_known = [](const Device& device) { return device.health.bar1.has_value(); }};

inline constexpr auto kMemoryFigures = std::to_array<Figure<Device>>({
    {.in = &kMemory,
     .key = "total_bytes",
     .value = kMemoryOf<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .meaning = "total bytes",
     .detail = {.section = Section::kMemory, .name = "total"},
     .csv = {.name = "device_total_bytes"},
     .metric = {.name = "vram_gpu_memory_total_bytes",
                .help = "Memory of the GPU: NVML nvmlDeviceGetMemoryInfo_v2.total; amdgpu "
                        "mem_info_vram_total; xe physical_vram_size_bytes."},
     .dcgm = {.name = "DCGM_FI_DEV_FB_TOTAL", .help = "Memory (in MiB)."}},
    {.in = &kMemory,
     .key = "used_bytes",
     .value = kMemoryOf<&DeviceMemory::used_bytes>,
     .limit = kMemoryOf<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .meaning = "bytes that programs use",
     .detail = {.section = Section::kMemory, .name = "used"},
     .csv = {.name = "device_used_bytes"},
     .metric = {.name = "vram_gpu_memory_used_bytes",
                .help = "Memory used by programs, their contexts with it: NVML "
                        "nvmlDeviceGetMemoryInfo_v2.used; amdgpu mem_info_vram_used."},
     .dcgm = {.name = "DCGM_FI_DEV_FB_USED", .help = "Memory used by programs (in MiB)."},
     .history = {.number = 1}},
    {.in = &kMemory,
     .key = "free_bytes",
     .value = kMemoryOf<&DeviceMemory::free_bytes>,
     .limit = kMemoryOf<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .meaning = "free bytes",
     .detail = {.section = Section::kMemory, .name = "free"},
     .csv = {.name = "device_free_bytes"},
     .metric = {.name = "vram_gpu_memory_free_bytes",
                .help = "Free memory: NVML nvmlDeviceGetMemoryInfo_v2.free; amdgpu total less "
                        "used."},
     .dcgm = {.name = "DCGM_FI_DEV_FB_FREE",
              .after = "DCGM_FI_DEV_FB_TOTAL",
              .help = "Free memory (in MiB)."},
     .history = {.number = 3}},
    {.in = &kMemory,
     .key = "reserved_bytes",
     .value = kMemoryOf<&DeviceMemory::reserved_bytes>,
     .limit = kMemoryOf<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .meaning = "bytes that the driver reserves for itself",
     .detail = {.section = Section::kMemory, .name = "reserved", .after = "total"},
     .csv = {.name = "device_reserved_bytes", .after = "device_used_bytes"},
     .metric = {.name = "vram_gpu_memory_reserved_bytes",
                .after = "vram_gpu_memory_used_bytes",
                .help = "Memory that the driver keeps for itself, not part of used: NVML "
                        "nvmlDeviceGetMemoryInfo_v2.reserved."},
     .dcgm = {.name = "DCGM_FI_DEV_FB_RESERVED", .help = "Memory that the driver keeps (in MiB)."},
     .history = {.number = 2}},
    {.value = kRead<used_ratio>,
     .dcgm = {.name = "DCGM_FI_DEV_FB_USED_PERCENT",
              .help = "Used of what is not reserved (0 to 1).",
              .ours = "used / (total - reserved)"}},
});

inline constexpr auto kHostMemoryFigures = std::to_array<Figure<Device>>({
    {.in = &kHostMemory,
     .key = "total_bytes",
     .value = kHostMemoryOf<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kHostMemory, .name = "total"},
     .csv = {.name = "device_host_total_bytes",
             .after = "device_nvlink_received_bytes_per_second",
             .is_late = true},
     .metric = {.name = "vram_gpu_host_memory_total_bytes",
                .after = "vram_gpu_memory_unaccounted_bytes",
                .help = "Memory of the host that the GPU may use as its own: amdgpu "
                        "mem_info_gtt_total."}},
    {.in = &kHostMemory,
     .key = "used_bytes",
     .value = kHostMemoryOf<&DeviceMemory::used_bytes>,
     .limit = kHostMemoryOf<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kHostMemory, .name = "used"},
     .csv = {.name = "device_host_used_bytes", .after = "device_host_total_bytes", .is_late = true},
     .metric = {.name = "vram_gpu_host_memory_used_bytes",
                .after = "vram_gpu_host_memory_total_bytes",
                .help = "Of it, used: amdgpu mem_info_gtt_used."},
     .history = {.number = 12, .name = "host_used_bytes"}},
    {.in = &kHostMemory,
     .key = "free_bytes",
     .value = kHostMemoryOf<&DeviceMemory::free_bytes>,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kHostMemory, .name = "free"}},
    {.in = &kHostMemory,
     .key = "reserved_bytes",
     .value = kHostMemoryOf<&DeviceMemory::reserved_bytes>,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kHostMemory, .name = "reserved", .after = "total"}},
});

inline constexpr auto kBalanceFigures = std::to_array<Figure<Device>>({
    {.key = "unattributed_bytes",
     .value = kRead<&Device::unattributed_bytes>,
     .unit = Unit::kBytes,
     .meaning = "used bytes of no process that the driver names: contexts of hidden processes, "
                "managed memory, the driver itself. Negative if the sum of the processes' figures "
                "exceeds the used bytes",
     .detail = {.section = Section::kBalance, .name = "unattributed"},
     .csv = {.name = "device_unattributed_bytes", .after = "device_free_bytes"},
     .metric = {.name = "vram_gpu_memory_unattributed_bytes",
                .after = "vram_gpu_memory_free_bytes",
                .help = "Used less the sum of all processes; below 0 where processes share "
                        "memory."},
     .history = {.number = 4}},
    {.key = "unaccounted_bytes",
     .value = kRead<&Device::unaccounted_bytes>,
     .unit = Unit::kBytes,
     .meaning = "total - used - reserved - free, if all are known: 0 if the driver's figures are "
                "consistent",
     .detail = {.section = Section::kBalance, .name = "unaccounted"},
     .metric = {.name = "vram_gpu_memory_unaccounted_bytes",
                .after = "vram_gpu_memory_unattributed_bytes",
                .help = "Total less used, reserved and free: 0 where the driver's figures add "
                        "up."}},
    {.in = &kBar1,
     .key = "total_bytes",
     .value = kBar1Of<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kBar1, .name = "total"},
     .metric = {.name = "vram_gpu_bar1_total_bytes",
                .help = "What the host can address of the memory: NVML "
                        "nvmlDeviceGetBAR1MemoryInfo; amdgpu mem_info_vis_vram_total."},
     .dcgm = {.name = "DCGM_FI_DEV_BAR1_TOTAL", .help = "BAR1 (in MiB)."}},
    {.in = &kBar1,
     .key = "used_bytes",
     .value = kBar1Of<&DeviceMemory::used_bytes>,
     .limit = kBar1Of<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kBar1, .name = "used"},
     .metric = {.name = "vram_gpu_bar1_used_bytes",
                .help = "Of it, used. On GPUs whose BAR1 is as large as the memory it follows "
                        "that."},
     .dcgm = {.name = "DCGM_FI_DEV_BAR1_USED", .help = "BAR1 used (in MiB)."}},
    {.in = &kBar1,
     .key = "free_bytes",
     .value = kBar1Of<&DeviceMemory::free_bytes>,
     .limit = kBar1Of<&DeviceMemory::total_bytes>,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kBar1, .name = "free"},
     .dcgm = {.name = "DCGM_FI_DEV_BAR1_FREE",
              .help = "BAR1 free (in MiB).",
              .ours = "`vram_gpu_bar1_total_bytes` - `vram_gpu_bar1_used_bytes`"}},
    {.in = &kBar1,
     .key = "reserved_bytes",
     .value = kBar1Of<&DeviceMemory::reserved_bytes>,
     .unit = Unit::kBytes,
     .detail = {.section = Section::kBar1, .name = "reserved", .after = "total"}},
});

}  // namespace vram::watch::figures
