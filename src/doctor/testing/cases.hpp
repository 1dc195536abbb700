// Cases: for each finding a machine that has it, and one as near to it as can be that has not. A
// file a subject (cases_*.cpp); examine_test tries them all.
#pragma once

#include "base/bytes.hpp"
#include "doctor/facts.hpp"

#include <cerrno>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::doctor::testing {

// Made-up machines as facts: a healthy one, and functions that break it.
inline watch::Device device_of(uint32_t index) {
  watch::Device device;
  device.identity.index = index;
  device.identity.name = "NVIDIA H200";
  device.identity.uuid = "GPU-" + std::to_string(index) + "abc";
  device.sample.memory.total_bytes = 141 * kGiB;
  device.sample.memory.used_bytes = kGiB;
  device.sample.throttle_reasons = {"power cap"};  // as it is at full load
  device.health.bar1.emplace().total_bytes = 256 * kGiB;
  device.health.ecc_since_boot.uncorrected = 0;
  device.health.remapped_rows = gpu::RemappedRows{};
  device.health.recovery_action = "none";
  device.health.compute_mode = "default";
  device.health.is_persistent = true;
  device.health.is_mig = false;
  return device;
}

// A server with two GPUs, driver 580, seen by an ordinary user.
inline MachineFacts healthy() {
  MachineFacts facts;
  facts.gpus = {{"0000:19:00.0", gpu::Vendor::kNvidia, 0x2335, "nvidia"},
                {"0000:1a:00.0", gpu::Vendor::kNvidia, 0x2335, "nvidia"}};
  facts.nvidia.has_module = true;
  facts.nvidia.has_uvm_module = true;
  facts.nvidia.module_version = "580.95.05";
  facts.nvidia.is_open = true;
  for (const std::string path :
       {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-uvm", "/dev/nvidiactl"})
    facts.nvidia.nodes.push_back({path, true, 0666U, "root"});
  facts.nvidia.nvml.was_asked = true;
  facts.nvidia.nvml.devices = 2;
  facts.nvidia.nvml.version = "580.95.05";
  facts.nvidia.cuda.was_asked = true;
  facts.nvidia.cuda.devices = 2;
  facts.nvidia.cuda.version = "13.0";
  facts.platform.kernel = "6.8.0-45-generic";
  facts.platform.memory_bytes = 1024 * kGiB;
  facts.platform.swap_bytes = 0;
  facts.container.is_host_pid_namespace = true;
  facts.shared_memory = {"/dev/shm", true, true, 0U, 01777U, 512 * kGiB, 500 * kGiB};
  facts.mps = {0U, "/tmp/nvidia-mps", false};
  facts.process.uid = 1000;
  facts.process.is_environment_known = true;
  facts.process.limits.open_files = 65'536;
  facts.xids.emplace();
  facts.snapshot.emplace();
  facts.snapshot->devices = {device_of(0), device_of(1)};
  facts.holders.emplace();
  return facts;
}

// The same in a container that was given both GPUs.
inline void put_into_container(MachineFacts& facts) {
  facts.container.is_inside = true;
  facts.container.runtime = "docker";
}

inline void take_driver_away(MachineFacts& facts) {
  facts.nvidia = {};
  for (PciGpu& gpu : facts.gpus) gpu.driver.clear();
  facts.snapshot->devices.clear();
}

inline void take_nodes_away(MachineFacts& facts) {
  facts.nvidia.nodes.clear();
  facts.nvidia.nvml.devices.reset();
  facts.nvidia.cuda.devices.reset();
  facts.snapshot->devices.clear();
}

inline void break_nvml(MachineFacts& facts, int error) {
  facts.nvidia.nvml.devices.reset();
  facts.nvidia.cuda.devices.reset();
  facts.nvidia.nvml.error = error;
  facts.nvidia.nvml.error_text = "Error (" + std::to_string(error) + ")";
  facts.snapshot->devices.clear();
}

inline void break_cuda(MachineFacts& facts, int error) {
  facts.nvidia.cuda.devices.reset();
  facts.nvidia.cuda.error = error;
  facts.nvidia.cuda.error_text = "CUDA_ERROR (" + std::to_string(error) + ")";
}

inline void set(MachineFacts& facts, const std::string& name, const std::string& value) {
  facts.process.environment[name] = value;
}

inline watch::Device& first_device(MachineFacts& facts) { return facts.snapshot->devices.front(); }

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
