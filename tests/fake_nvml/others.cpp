// Functions that vram does not call and other monitors insist on (bench/monitors.py runs them):
// none of these devices supports them.
#include "call.hpp"

namespace {

using namespace vram::gpu::nvml;  // NOLINT(google-build-using-namespace): the library speaks it
using vram::fake_nvml::begin;

NvmlReturn not_supported(const char* name, nvmlDevice device) {
  const auto call = begin(name, device);
  return call.is_fine() ? kNotSupported : call.answer;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
extern "C" {

NvmlReturn nvmlDeviceGetFanSpeed(nvmlDevice device, unsigned* /*percent*/) {
  return not_supported("nvmlDeviceGetFanSpeed", device);
}
NvmlReturn nvmlDeviceGetEncoderUtilization(nvmlDevice device, unsigned* /*percent*/,
                                           unsigned* /*period*/) {
  return not_supported("nvmlDeviceGetEncoderUtilization", device);
}
NvmlReturn nvmlDeviceGetDecoderUtilization(nvmlDevice device, unsigned* /*percent*/,
                                           unsigned* /*period*/) {
  return not_supported("nvmlDeviceGetDecoderUtilization", device);
}
NvmlReturn nvmlDeviceGetMaxClockInfo(nvmlDevice device, int /*kind*/, unsigned* /*mhz*/) {
  return not_supported("nvmlDeviceGetMaxClockInfo", device);
}
NvmlReturn nvmlDeviceGetTemperatureThreshold(nvmlDevice device, int /*kind*/,
                                             unsigned* /*celsius*/) {
  return not_supported("nvmlDeviceGetTemperatureThreshold", device);
}
NvmlReturn nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice device, unsigned* /*number*/) {
  return not_supported("nvmlDeviceGetCurrPcieLinkGeneration", device);
}
NvmlReturn nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice device, unsigned* /*lanes*/) {
  return not_supported("nvmlDeviceGetCurrPcieLinkWidth", device);
}
NvmlReturn nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice device, unsigned* /*number*/) {
  return not_supported("nvmlDeviceGetMaxPcieLinkGeneration", device);
}
NvmlReturn nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice device, unsigned* /*lanes*/) {
  return not_supported("nvmlDeviceGetMaxPcieLinkWidth", device);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
