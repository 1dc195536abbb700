// What happens to devices: see fake_nvml.cpp. An event is given for each line "xid" that the
// scenario gets after a device was registered.
#include "call.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <thread>

// NOLINTNEXTLINE(readability-identifier-naming): NVML's own name
struct vram::gpu::nvml::nvmlEventSet_st {
  std::map<uint32_t, size_t> given;  // by device: how many of its lines
};

namespace {

using namespace vram::gpu::nvml;  // NOLINT(google-build-using-namespace): the library speaks it
using vram::fake_nvml::begin;
using vram::fake_nvml::Call;
using vram::fake_nvml::odd;

// Whether there is an event, or a device can't be reached.
bool has_event(nvmlEventSet set, EventV2& event, NvmlReturn& answer) {
  const auto machine = vram::fake_nvml::machine_now();
  for (auto& [index, given] : set->given) {
    if (index >= machine->devices.size()) continue;
    const auto& device = machine->devices[index];
    answer = device.figures.contains("lost") ? kGpuIsLost : kSuccess;
    if (answer != kSuccess) return true;
    if (given >= device.xids.size()) continue;
    const auto& xid = device.xids[given++];
    event = {vram::fake_nvml::handle_of(index), kEventXid, odd(xid.number), xid.gpu_instance,
             xid.compute_instance};
    return true;
  }
  return false;
}

NvmlReturn wait(const char* function, nvmlEventSet set, EventV2& event, unsigned timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  if (const Call call = begin(function); !call.is_fine()) return call.answer;
  NvmlReturn answer = kSuccess;
  while (!has_event(set, event, answer)) {
    if (Clock::now() >= end) return kTimeout;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return answer;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
extern "C" {

NvmlReturn nvmlEventSetCreate(nvmlEventSet* set) {
  const Call call = begin("nvmlEventSetCreate");
  if (call.is_fine()) *set = std::make_unique<nvmlEventSet_st>().release();
  return call.answer;
}

NvmlReturn nvmlEventSetFree(nvmlEventSet set) {
  const std::unique_ptr<nvmlEventSet_st> freed(set);
  return begin("nvmlEventSetFree").answer;
}

NvmlReturn nvmlDeviceRegisterEvents(nvmlDevice device, uint64_t types, nvmlEventSet set) {
  const Call call = begin("nvmlDeviceRegisterEvents", device);
  if (!call.is_fine()) return call.answer;
  if ((types & kEventXid) == 0) return kNotSupported;
  set->given[call.index] = call.device->xids.size();
  return kSuccess;
}

NvmlReturn nvmlEventSetWait(nvmlEventSet set, EventV1* event, unsigned timeout_ms) {
  EventV2 newer{};
  const NvmlReturn answer = wait("nvmlEventSetWait", set, newer, timeout_ms);
  *event = {newer.device, newer.type, newer.data};
  return answer;
}

#if FAKE_NVML_GENERATION >= 2
NvmlReturn nvmlEventSetWait_v2(nvmlEventSet set, EventV2* event, unsigned timeout_ms) {
  return wait("nvmlEventSetWait_v2", set, *event, timeout_ms);
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
