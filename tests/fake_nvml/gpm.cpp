// What the performance counters say between two samples (GPM): see fake_nvml.cpp. A sample is its
// number and its device; the rates are the scenario's, for two samples of one device in their
// order.
#include "call.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <sstream>

#if FAKE_NVML_GENERATION >= 3

// NOLINTBEGIN(readability-identifier-naming): NVML's own names
struct vram::gpu::nvml::nvmlGpmSample_st {
  uint64_t number = 0;  // 0: not taken
  uint32_t index = 0;   // of the device
};

namespace {

using namespace vram::gpu::nvml;  // NOLINT(google-build-using-namespace): the library speaks it
using vram::fake_nvml::begin;
using vram::fake_nvml::Call;

// The place of a metric in the scenario's line.
int place_of(uint32_t metric) {
  static constexpr std::array<uint32_t, 5> kInOrder{kGpmMemoryBandwidthPercent, kGpmPcieSentMib,
                                                    kGpmPcieReceivedMib, kGpmNvlinkSentMib,
                                                    kGpmNvlinkReceivedMib};
  for (size_t i = 0; i < kInOrder.size(); ++i) {
    if (kInOrder.at(i) == metric) return static_cast<int>(i);
  }
  return -1;
}

void write(const std::string& line, GpmMetric& metric) {
  std::istringstream words(line);
  std::string word = "-";
  for (int place = place_of(metric.metric); place >= 0; --place) {
    if (!(words >> word)) word = "-";
  }
  metric.result = word == "-" ? kNotSupported : kSuccess;
  metric.value = std::strtod(word.c_str(), nullptr);
  if (!vram::fake_nvml::is_odd(4)) return;
  static const std::array kOdd{-1.0, 1e300, 1e9, std::nan(""), 100.6};
  metric.value = kOdd.at(vram::fake_nvml::odd(uint64_t{3}) % kOdd.size());
}

bool has_gpm(const Call& call) { return call.device->texts.contains("gpm"); }

}  // namespace

extern "C" {

NvmlReturn nvmlGpmQueryDeviceSupport(nvmlDevice device, GpmSupport* support) {
  const Call call = begin("nvmlGpmQueryDeviceSupport", device);
  if (!call.is_fine()) return call.answer;
  if (support->version != kGpmSupportVersion) return kArgumentVersionMismatch;
  support->is_supported = has_gpm(call) ? 1 : 0;
  return kSuccess;
}

NvmlReturn nvmlGpmSampleAlloc(nvmlGpmSample* sample) {
  const Call call = begin("nvmlGpmSampleAlloc");
  if (call.is_fine()) *sample = new nvmlGpmSample_st;
  return call.answer;
}

// Who comes after the end of the library is wrong, and no test would see it.
NvmlReturn nvmlGpmSampleFree(nvmlGpmSample sample) {
  const Call call = begin("nvmlGpmSampleFree");
  if (call.answer == kUninitialized) std::abort();
  delete sample;
  return call.answer;
}

NvmlReturn nvmlGpmSampleGet(nvmlDevice device, nvmlGpmSample sample) {
  static std::atomic<uint64_t> last = 0;
  const Call call = begin("nvmlGpmSampleGet", device);
  if (!call.is_fine()) return call.answer;
  if (!has_gpm(call)) return kNotSupported;
  *sample = {++last, call.index};
  return kSuccess;
}

NvmlReturn nvmlGpmMetricsGet(GpmMetrics* metrics) {
  const bool is_in_order = metrics->version == kGpmMetricsVersion && metrics->older->number > 0 &&
                           metrics->older->number < metrics->newer->number &&
                           metrics->older->index == metrics->newer->index;
  if (!is_in_order) return kInvalidArgument;
  const Call call = begin("nvmlGpmMetricsGet", vram::fake_nvml::handle_of(metrics->newer->index));
  if (!call.is_fine()) return call.answer;
  if (!has_gpm(call)) return kNotSupported;
  for (uint32_t i = 0; i < metrics->count; ++i)
    write(call.device->texts.at("gpm"), metrics->metrics[i]);
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

#endif
