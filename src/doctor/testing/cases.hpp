// Cases: for each finding a machine that has it, and one as near to it as can be that has not. A
// file a subject (cases_*.cpp); examine_test tries them all.
#pragma once

#include "doctor/testing/machines.hpp"

#include <cerrno>
#include <span>
#include <string>
#include <string_view>

namespace vram::doctor::testing {

using Facts = MachineFacts;

struct Case {
  std::string_view id;
  void (*ill)(Facts&);
  void (*well)(Facts&);
};

inline void be_a_wsl(Facts& f) {
  f.platform.is_wsl = true;
  f.platform.kernel = "5.15.153.1-microsoft-standard-WSL2";
  f.platform.has_dxg = true;
  f.platform.has_wsl_library = true;
  f.gpus.clear();
  f.nvidia.has_module = false;
  f.nvidia.nodes.clear();
}

inline void have_amd(Facts& f, int refused) {
  f.gpus = {{"0000:03:00.0", gpu::Vendor::kAmd, 0x744c, "amdgpu"}};
  f.nvidia = {};
  f.snapshot->devices.front().identity.vendor = gpu::Vendor::kAmd;
  f.snapshot->devices.pop_back();
  f.drm = {{"0000:03:00.0", "amdgpu", {"/dev/dri/renderD128", true, 0660U, "render", refused}}};
  f.kfd = DeviceNode{"/dev/kfd", true, 0660U, "render", refused};
}

inline void be_mig(Facts& f, size_t parts) {
  first_device(f).health.is_mig = true;
  for (uint32_t i = 0; i < parts; ++i) {
    gpu::MigInstance part;
    part.gpu_instance = i;
    part.uuid = "MIG-" + std::to_string(i);
    first_device(f).health.mig_instances.push_back(part);
  }
}

inline void log_xid(Facts& f, uint32_t xid) {
  f.xids->push_back({"0000:19:00", xid, 2, "79, GPU"});
}

inline void add_holder(Facts& f, bool is_gone, bool is_idle) {
  watch::Holder holder;
  holder.facts.pid = 4711;
  holder.held_bytes = 3 * kGiB;
  holder.is_gone = is_gone;
  holder.is_idle = is_idle;
  f.holders->holders.push_back(holder);
}

inline constexpr const char* kTorch = "PYTORCH_CUDA_ALLOC_CONF";
inline void torch(Facts& f, const std::string& value) { set(f, kTorch, value); }
inline void nothing(Facts&) {}

[[nodiscard]] std::span<const Case> platform_cases();
[[nodiscard]] std::span<const Case> driver_cases();
[[nodiscard]] std::span<const Case> permission_cases();
[[nodiscard]] std::span<const Case> container_cases();
[[nodiscard]] std::span<const Case> sharing_cases();
[[nodiscard]] std::span<const Case> health_cases();
[[nodiscard]] std::span<const Case> torch_cases();
[[nodiscard]] std::span<const Case> variable_cases();

}  // namespace vram::doctor::testing
