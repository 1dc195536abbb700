// The checks: each examines the facts of one subject and reports findings. Pure functions.
#pragma once

#include "doctor/facts.hpp"
#include "doctor/finding.hpp"

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

}  // namespace vram::doctor
