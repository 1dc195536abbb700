// libnvidia-ml.so.1, the fake: a machine with two GPUs as one generation of NVIDIA's drivers would
// show it. FAKE_NVML_GENERATION chooses which functions there are and what structs they write:
//   1: memory v1, processes v1        2: memory v2, processes v2
//   535: _v3 lists of 32 bytes        3: _v3 lists of 24 bytes
//
// The environment, read at each call, says what goes wrong: FAKE_NVML_FAIL is a list such as
// "nvmlDeviceGetMemoryInfo_v2=15 nvmlInit_v2=9" of functions and what they answer.
// FAKE_NVML_PROCESSES: how many compute processes device 0 has besides those told of in README.md.
#include "gpu/nvml/nvml_types.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace vram::gpu::nvml;  // NOLINT(google-build-using-namespace): the library speaks it

constexpr uint64_t kMiB = 1U << 20U;
constexpr uint64_t kTotal = 1000 * kMiB;
constexpr uint64_t kReserved = 50 * kMiB;
constexpr uint64_t kUsed = 300 * kMiB;

int open_count = 0;  // nvmlInit less nvmlShutdown

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): a test's own
  return value == nullptr ? "" : value;
}

// What the environment wants a function to answer.
NvmlReturn answer_of(const char* function) {
  const std::string wanted = " " + environment("FAKE_NVML_FAIL");
  const size_t at = wanted.find(std::string(" ") + function + "=");
  if (at != std::string::npos)
    return static_cast<NvmlReturn>(std::atoi(wanted.c_str() + wanted.find('=', at) + 1));
  if (open_count == 0 && std::strcmp(function, "nvmlInit_v2") != 0) return kUninitialized;
  return kSuccess;
}

unsigned index_of(nvmlDevice device) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device)) - 1;
}

struct Process {
  uint32_t pid;
  uint64_t used_bytes;
  uint32_t instance;
};

std::vector<Process> processes_of(nvmlDevice device, bool is_graphics) {
  if (index_of(device) != 0) return {};
  if (is_graphics) return {{101, 200 * kMiB, kNoInstance}, {77, kNotAvailable, kNoInstance}};
  std::vector<Process> found{{102, 2 * kTotal, kNoInstance},
                             {101, 200 * kMiB, kNoInstance},
                             {103, 10 * kMiB, 1},
                             {103, 20 * kMiB, 2}};
  const int more = std::atoi(environment("FAKE_NVML_PROCESSES").c_str());
  for (int i = 0; i < more; ++i)
    found.push_back({1000 + static_cast<uint32_t>(i), kMiB, kNoInstance});
  return found;
}

void write(ProcessV1& entry, const Process& process) { entry = {process.pid, process.used_bytes}; }
[[maybe_unused]] void write(ProcessV2& entry, const Process& process) {
  entry = {process.pid, process.used_bytes, process.instance, process.instance};
}
[[maybe_unused]] void write(ProcessV3Of535& entry, const Process& process) {
  entry = {process.pid, process.used_bytes, process.instance, process.instance, 12345};
}

template <typename Entry>
NvmlReturn list(const char* function, bool is_graphics, nvmlDevice device, unsigned* count,
                void* entries) {
  if (const NvmlReturn answer = answer_of(function); answer != kSuccess) return answer;
  const std::vector<Process> found = processes_of(device, is_graphics);
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (room < found.size()) return kInsufficientSize;
  for (size_t i = 0; i < found.size(); ++i) write(static_cast<Entry*>(entries)[i], found[i]);
  return kSuccess;
}

NvmlReturn write_text(const char* function, const std::string& text, char* out, unsigned capacity) {
  if (const NvmlReturn answer = answer_of(function); answer != kSuccess) return answer;
  (void)std::snprintf(out, capacity, "%s", text.c_str());
  return kSuccess;
}

}  // namespace

#define FAKE_LIST(name, Entry, is_graphics)                            \
  NvmlReturn name(nvmlDevice device, unsigned* count, void* entries) { \
    return list<Entry>(#name, is_graphics, device, count, entries);    \
  }

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
extern "C" {

NvmlReturn nvmlInit_v2() {
  const NvmlReturn answer = answer_of("nvmlInit_v2");
  if (answer == kSuccess) ++open_count;
  return answer;
}

NvmlReturn nvmlShutdown() {
  --open_count;
  return kSuccess;
}

const char* nvmlErrorString(NvmlReturn result) {
  return result == kGpuIsLost ? "GPU is lost" : "Something Else";
}

NvmlReturn nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return answer_of("nvmlDeviceGetCount_v2");
}

NvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice* device) {
  if (index >= 2) return kInvalidArgument;
  *device =
      reinterpret_cast<nvmlDevice>(uintptr_t{index} + 1);  // NOLINT(performance-no-int-to-ptr)
  return answer_of(index == 1 ? "second" : "nvmlDeviceGetHandleByIndex_v2");
}

NvmlReturn nvmlDeviceGetName(nvmlDevice device, char* name, unsigned capacity) {
  return write_text("nvmlDeviceGetName", "Fake GPU " + std::to_string(index_of(device)), name,
                    capacity);
}

NvmlReturn nvmlDeviceGetUUID(nvmlDevice device, char* uuid, unsigned capacity) {
  return write_text("nvmlDeviceGetUUID", "GPU-" + std::to_string(index_of(device)), uuid, capacity);
}

NvmlReturn nvmlDeviceGetUtilizationRates(nvmlDevice device, Utilization* utilization) {
  *utilization = {index_of(device) == 0 ? 37U : 400U, 12};
  return answer_of("nvmlDeviceGetUtilizationRates");
}

NvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice /*device*/, MemoryV1* memory) {
  *memory = {kTotal, kTotal - kUsed - kReserved, kUsed + kReserved};
  return answer_of("nvmlDeviceGetMemoryInfo");
}

FAKE_LIST(nvmlDeviceGetComputeRunningProcesses, ProcessV1, false)
FAKE_LIST(nvmlDeviceGetGraphicsRunningProcesses, ProcessV1, true)

#if FAKE_NVML_GENERATION >= 2
NvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice device, MemoryV2* memory) {
  if (memory->version != kMemoryV2Version) return kArgumentVersionMismatch;
  // Device 1's driver counts what is reserved to what is used.
  const uint64_t used = index_of(device) == 0 ? kUsed : kUsed + kReserved;
  *memory = {kMemoryV2Version, kTotal, kReserved, kTotal - kUsed - kReserved, used};
  return answer_of("nvmlDeviceGetMemoryInfo_v2");
}
FAKE_LIST(nvmlDeviceGetComputeRunningProcesses_v2, ProcessV2, false)
FAKE_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, ProcessV2, true)
#endif

#if FAKE_NVML_GENERATION == 535
FAKE_LIST(nvmlDeviceGetComputeRunningProcesses_v3, ProcessV3Of535, false)
FAKE_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, ProcessV3Of535, true)
NvmlReturn nvmlDeviceGetConfComputeMemSizeInfo() { return kNotSupported; }
#elif FAKE_NVML_GENERATION == 3
FAKE_LIST(nvmlDeviceGetComputeRunningProcesses_v3, ProcessV2, false)
FAKE_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, ProcessV2, true)
NvmlReturn nvmlDeviceGetConfComputeMemSizeInfo() { return kNotSupported; }
NvmlReturn nvmlDeviceGetRunningProcessDetailList() { return kNotSupported; }
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
