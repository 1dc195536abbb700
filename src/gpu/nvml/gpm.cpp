#include "gpu/nvml/gpm.hpp"

#include "gpu/nvml/query.hpp"

#include <cmath>
#include <utility>

namespace vram::gpu::nvml {
namespace {

bool has_functions(const NvmlApi& api) {
  return api.gpm_query_support != nullptr && api.gpm_sample_alloc != nullptr &&
         api.gpm_sample_free != nullptr && api.gpm_sample_get != nullptr &&
         api.gpm_metrics_get != nullptr;
}

bool is_supported(const NvmlApi& api, nvmlDevice device) {
  GpmSupport support{kGpmSupportVersion, 0};
  return api.gpm_query_support(device, &support) == kSuccess && support.is_supported == 1;
}

// Not a number fails every comparison.
std::optional<double> up_to(double most, const GpmMetric& metric) {
  const bool is_possible = metric.result == kSuccess && metric.value >= 0 && metric.value <= most;
  return is_possible ? std::optional(metric.value) : std::nullopt;
}

std::optional<uint32_t> percent_of(const GpmMetric& metric) {
  constexpr double kMax = 100.49;  // what rounding makes 100
  const auto percent = up_to(kMax, metric);
  return percent ? std::optional(static_cast<uint32_t>(std::lround(*percent))) : std::nullopt;
}

std::optional<uint64_t> bytes_of(const GpmMetric& metric) {
  constexpr double kMib = 1024 * 1024;
  const auto mib = up_to(static_cast<double>(kMaxBytesPerSecond) / kMib, metric);
  return mib ? std::optional(static_cast<uint64_t>(std::llround(*mib * kMib))) : std::nullopt;
}

GpmFigures figures_of(const GpmMetrics& metrics) {
  return {percent_of(metrics.metrics[0]), bytes_of(metrics.metrics[1]),
          bytes_of(metrics.metrics[2]), bytes_of(metrics.metrics[3]), bytes_of(metrics.metrics[4])};
}

}  // namespace

std::shared_ptr<Gpm> Gpm::open(const NvmlApi& api, nvmlDevice device) {
  if (!has_functions(api) || !is_supported(api, device)) return nullptr;
  const std::shared_ptr<Gpm> gpm(new Gpm(api, device));
  for (Sample& sample : gpm->samples_) {
    if (api.gpm_sample_alloc(&sample.buffer) != kSuccess || sample.buffer == nullptr) {
      sample.buffer = nullptr;
      return nullptr;
    }
  }
  return gpm->take() ? gpm : nullptr;
}

Gpm::~Gpm() {
  for (const Sample& sample : samples_) {
    if (sample.buffer != nullptr) (void)api_.gpm_sample_free(sample.buffer);
  }
}

bool Gpm::take() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return true;
  std::swap(samples_[0], samples_[1]);
  const NvmlReturn answer = api_.gpm_sample_get(device_, samples_[0].buffer);
  samples_[0].is_good = answer == kSuccess;
  return answer != kNotSupported && answer != kNoPermission && !is_of_other_version(answer);
}

GpmFigures Gpm::read() {
  static constexpr std::array kAsked{kGpmMemoryBandwidthPercent, kGpmPcieSentMib,
                                     kGpmPcieReceivedMib, kGpmNvlinkSentMib, kGpmNvlinkReceivedMib};
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {};
  if (!samples_[0].is_good || !samples_[1].is_good) return {};
  GpmMetrics metrics{};
  metrics.version = kGpmMetricsVersion;
  metrics.count = kAsked.size();
  metrics.older = samples_[1].buffer;
  metrics.newer = samples_[0].buffer;
  for (size_t i = 0; i < kAsked.size(); ++i) {
    metrics.metrics[i].metric = kAsked.at(i);
    metrics.metrics[i].result = kNotSupported;
  }
  return api_.gpm_metrics_get(&metrics) == kSuccess ? figures_of(metrics) : GpmFigures{};
}

}  // namespace vram::gpu::nvml
