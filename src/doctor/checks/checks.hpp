// The checks: each examines the facts of one subject and reports findings. Pure functions.
#pragma once

#include "doctor/examine.hpp"
#include "doctor/facts.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::doctor {

[[nodiscard]] Findings check_platform(const MachineFacts& facts);
[[nodiscard]] Findings check_wsl(const MachineFacts& facts);
[[nodiscard]] Findings check_module(const MachineFacts& facts);
[[nodiscard]] Findings check_libraries(const MachineFacts& facts);
[[nodiscard]] Findings check_driver_version(const MachineFacts& facts);
[[nodiscard]] Findings check_devices(const MachineFacts& facts);
[[nodiscard]] Findings check_permissions(const MachineFacts& facts);
[[nodiscard]] Findings check_shared_memory(const MachineFacts& facts);
[[nodiscard]] Findings check_container(const MachineFacts& facts);
[[nodiscard]] Findings check_sharing(const MachineFacts& facts);  // MPS, MIG, persistence
[[nodiscard]] Findings check_torch(const MachineFacts& facts);
[[nodiscard]] Findings check_cuda_environment(const MachineFacts& facts);
[[nodiscard]] Findings check_visible_devices(const MachineFacts& facts);
[[nodiscard]] Findings check_frameworks(const MachineFacts& facts);
[[nodiscard]] Findings check_vram_environment(const MachineFacts& facts);
[[nodiscard]] Findings check_limits(const MachineFacts& facts);
[[nodiscard]] Findings check_health(const MachineFacts& facts);
[[nodiscard]] Findings check_xids(const MachineFacts& facts);
[[nodiscard]] Findings check_holders(const MachineFacts& facts);

// Common queries and texts of several checks. Pure functions.

// NVIDIA's GPUs on the bus that are this system's to use: not those lent to virtual machines.
[[nodiscard]] std::vector<const PciGpu*> nvidia_gpus(const MachineFacts& facts);
// Whether there is an NVIDIA GPU, or should be.
[[nodiscard]] bool has_nvidia(const MachineFacts& facts);
// NVML counts at least one.
[[nodiscard]] bool nvml_works(const MachineFacts& facts);
[[nodiscard]] bool cuda_works(const MachineFacts& facts);

[[nodiscard]] const DeviceNode* node_of(const MachineFacts& facts, std::string_view path);
// /dev/nvidiactl, without which nothing of NVIDIA's works.
[[nodiscard]] bool has_nodes(const MachineFacts& facts);

// The examined process's variable; nothing: not set.
[[nodiscard]] std::optional<std::string_view> variable(const MachineFacts& facts,
                                                       const std::string& name);
[[nodiscard]] bool is_on(std::optional<std::string_view> value);   // 1, true, yes, on
[[nodiscard]] bool is_off(std::optional<std::string_view> value);  // 0, false, no, off
// "NAME=value"
[[nodiscard]] std::string shown(const MachineFacts& facts, const std::string& name);

// The command to type: with sudo, unless the user is root.
[[nodiscard]] std::string as_root(const MachineFacts& facts, std::string_view command);
// As as_root(), for a command that works only on the host, where a container's root has no rights.
[[nodiscard]] std::string on_host(const MachineFacts& facts, std::string_view command);
// "on the host, not in this container"; "" outside.
[[nodiscard]] std::string place(const MachineFacts& facts);

// 535 of "535.54.03"; 0: unknown.
[[nodiscard]] uint32_t branch_of(std::string_view version);
// The driver's version from any source; empty if unknown.
[[nodiscard]] std::string driver_version(const MachineFacts& facts);
// Of "6.8.0-45-generic" against 6.8.
[[nodiscard]] bool is_kernel_before(const MachineFacts& facts, uint32_t major, uint32_t minor);

[[nodiscard]] const std::vector<watch::Device>& devices(const MachineFacts& facts);
[[nodiscard]] uint64_t largest_memory(const MachineFacts& facts);  // 0: unknown
// What nvidia-smi calls a GPU by also outside of a container, where indices are others: its UUID,
// else its PCI id. Nothing: it has none that is fit for a command, or is not NVIDIA's.
[[nodiscard]] std::optional<std::string> nvidia_name(const watch::Device& device);
// "nvidia-smi -i GPU-…" and what follows.
[[nodiscard]] std::optional<std::string> nvidia_smi(const watch::Device& device,
                                                    std::string_view what);
// "GPU 1 (NVIDIA H200)"
[[nodiscard]] std::string name_of(const watch::Device& device);

// PyTorch's allocator settings as it reads them: "key:value,key:[256:1,512:2]". In torch.cpp.

struct TorchSetting {
  std::string key;
  std::string value;
};

// Spaces don't count, commas between brackets belong to the value. A word without a colon is a key
// without a value.
[[nodiscard]] std::vector<TorchSetting> torch_settings(std::string_view text);

// Every key of any PyTorch version.
[[nodiscard]] const std::vector<std::string>& torch_keys();

// Why PyTorch would refuse the value of a known key; empty: it accepts it.
[[nodiscard]] std::string why_refused(const TorchSetting& setting);

[[nodiscard]] std::optional<double> as_fraction(std::string_view text);

}  // namespace vram::doctor
