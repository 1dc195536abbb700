// The processes of a device: see fake_nvml.cpp.
#include "call.hpp"

#include <chrono>
#include <cstdlib>
#include <vector>

namespace {

using namespace vram::gpu::nvml;  // NOLINT(google-build-using-namespace): the library speaks it
using vram::fake_nvml::begin;
using vram::fake_nvml::Call;
using vram::fake_nvml::odd;
using vram::fake_nvml::Process;

bool is_in_part(const Call& call, const Process& process) {
  return call.part == nullptr || (process.gpu_instance == call.part->gpu_instance &&
                                  process.compute_instance == call.part->compute_instance);
}

std::vector<Process> processes_of(const Call& call, const std::string& kind) {
  std::vector<Process> found;
  for (const Process& process : call.device->processes) {
    if (process.kind == kind && is_in_part(call, process)) found.push_back(process);
  }
  if (call.index != 0 || call.part != nullptr || kind != "compute") return found;
  const int more = std::atoi(vram::fake_nvml::environment("FAKE_NVML_PROCESSES").c_str());
  for (int i = 0; i < more; ++i)
    found.push_back({kind, 1000 + static_cast<uint32_t>(i), uint64_t{1} << 20U});
  return found;
}

[[maybe_unused]] void write(ProcessV1& entry, const Process& process) {
  entry = {process.pid, odd(process.used_bytes)};
}
[[maybe_unused]] void write(ProcessV2& entry, const Process& process) {
  entry = {process.pid, odd(process.used_bytes), odd(process.gpu_instance),
           process.compute_instance};
}
[[maybe_unused]] void write(ProcessV3Of535& entry, const Process& process) {
  entry = {process.pid, odd(process.used_bytes), odd(process.gpu_instance),
           process.compute_instance, 12345};
}

template <typename Entry>
NvmlReturn list(const char* function, const char* kind, nvmlDevice device, unsigned* count,
                void* entries) {
  const Call call = begin(function, device);
  if (!call.is_fine()) {
    *count = odd(*count);
    return call.answer;
  }
  const std::vector<Process> found = processes_of(call, kind);
  const unsigned room = *count;
  *count = odd(static_cast<unsigned>(found.size()));
  if (room < found.size()) return kInsufficientSize;
  for (size_t i = 0; i < found.size(); ++i) write(static_cast<Entry*>(entries)[i], found[i]);
  return kSuccess;
}

}  // namespace

#define FAKE_LIST(name, Entry, kind)                                   \
  NvmlReturn name(nvmlDevice device, unsigned* count, void* entries) { \
    return list<Entry>(#name, kind, device, count, entries);           \
  }

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
extern "C" {

FAKE_LIST(nvmlDeviceGetComputeRunningProcesses, ProcessV1, "compute")
FAKE_LIST(nvmlDeviceGetGraphicsRunningProcesses, ProcessV1, "graphics")

#if FAKE_NVML_GENERATION >= 2
FAKE_LIST(nvmlDeviceGetComputeRunningProcesses_v2, ProcessV2, "compute")
FAKE_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, ProcessV2, "graphics")
FAKE_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, ProcessV2, "mps")
#endif

#if FAKE_NVML_GENERATION == 535
FAKE_LIST(nvmlDeviceGetComputeRunningProcesses_v3, ProcessV3Of535, "compute")
FAKE_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, ProcessV3Of535, "graphics")
FAKE_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, ProcessV3Of535, "mps")
NvmlReturn nvmlDeviceGetConfComputeMemSizeInfo() { return kNotSupported; }
#elif FAKE_NVML_GENERATION == 3
FAKE_LIST(nvmlDeviceGetComputeRunningProcesses_v3, ProcessV2, "compute")
FAKE_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, ProcessV2, "graphics")
FAKE_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, ProcessV2, "mps")
NvmlReturn nvmlDeviceGetConfComputeMemSizeInfo() { return kNotSupported; }
NvmlReturn nvmlDeviceGetRunningProcessDetailList() { return kNotSupported; }
#endif

// Of each process an old sample, which was not requested, and one of 0.1 s ago.
NvmlReturn nvmlDeviceGetProcessUtilization(nvmlDevice device, ProcessBusy* samples, unsigned* count,
                                           uint64_t /*since_us*/) {
  const Call call = begin("nvmlDeviceGetProcessUtilization", device);
  if (!call.is_fine()) return call.answer;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_us =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  std::vector<ProcessBusy> found;
  for (const Process& process : call.device->processes) {
    if (process.busy_percent == UINT32_MAX) continue;
    found.push_back({process.pid, now_us - 100'000, odd(process.busy_percent), 0, 0, 0});
    found.push_back({process.pid, now_us - 5'000'000, 99, 0, 0, 0});
  }
  const unsigned room = *count;
  *count = odd(static_cast<unsigned>(found.size()));
  if (found.empty()) return kNotFound;
  if (room < found.size()) return kInsufficientSize;
  for (size_t i = 0; i < found.size(); ++i) samples[i] = found[i];
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
