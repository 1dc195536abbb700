// Whatever a library or a process says, the page can be read, and nothing on it is above what the
// device has.
#include "base/testing/hostile_text.hpp"
#include "show/metrics/metrics.hpp"
#include "show/testing/parsed_metrics.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

namespace vram::show {
namespace {

constexpr int kMachines = 300;

// Figures of a driver that has gone mad.
class RandomFigures {
 public:
  explicit RandomFigures(unsigned seed) : random_(seed) {}

  template <typename T>
  void touch(std::optional<T>& figure) {
    switch (random_() % 4) {
      case 0:
        figure.reset();
        break;
      case 1:
        figure = static_cast<T>(random_());
        break;
      case 2:
        figure = std::numeric_limits<T>::max();
        break;
      default:
        break;
    }
  }
  void touch(std::optional<std::string>& text) {
    static const std::array<std::string, 5> kTexts{"", "a\\b\"c\nd", vram::testing::hostile_text(),
                                                   "\xe2\x80", std::string(70'000, '\xcc')};
    if (random_() % 2 == 0) text = kTexts.at(random_() % kTexts.size());
  }
  void touch(gpu::DeviceMemory& memory) {
    touch(memory.total_bytes);
    touch(memory.used_bytes);
    touch(memory.free_bytes);
    touch(memory.reserved_bytes);
  }
  void touch(watch::Device& device) {
    touch(device.identity.uuid);
    touch(device.identity.name);
    touch(device.identity.pci_id);
    touch(device.sample.memory);
    touch(device.sample.host_memory);
    touch(device.sample.busy_percent);
    touch(device.sample.memory_busy_percent);
    touch(device.sample.memory_bandwidth_percent);
    touch(device.sample.milliwatts);
    touch(device.sample.core_mhz);
    touch(device.sample.pcie_sent_bytes);
    touch(device.pcie_sent_bytes_per_second);
    touch(device.sample.trouble);
    touch(device.health.recovery_action);
    if (device.health.bar1) touch(*device.health.bar1);
    for (gpu::MigInstance& instance : device.health.mig_instances) touch(instance.memory);
    if (device.sample.throttle_reasons && random_() % 2 == 0)
      device.sample.throttle_reasons = {"power cap", "power cap", vram::testing::hostile_text(),
                                        ""};
  }
  void touch(watch::Process& process) {
    touch(process.facts.edit().user);
    touch(process.facts.edit().command);
    if (random_() % 4 == 0) process.facts.edit().pid = 1;
    for (watch::Use& use : process.uses) {
      touch(use.process.used_bytes);
      touch(use.process.busy_percent);
      touch(use.process.gpu_instance);
      if (random_() % 8 == 0) use.device = 1'000;
      if (random_() % 2 == 0) use.allocator.emplace();
      if (!use.allocator) continue;
      touch(use.allocator->allocated_bytes);
      touch(use.allocator->reserved_bytes);
      touch(use.allocator->cached_bytes);
      touch(use.allocator->peak_bytes);
    }
  }

 private:
  std::mt19937_64 random_;
};

watch::Sampled random_machine(unsigned seed) {
  RandomFigures random_figures(seed);
  watch::Sampled sampled = testing::full_sampled();
  for (watch::Device& device : sampled.snapshot.devices) random_figures.touch(device);
  for (watch::Process& process : sampled.snapshot.processes) random_figures.touch(process);
  return sampled;
}

std::string label_of(const std::string& series, const std::string& name) {
  const std::string begin = name + "=\"";
  const size_t at = series.find(begin);
  if (at == std::string::npos) return "";
  size_t end = at + begin.size();
  while (series[end] != '"') end += series[end] == '\\' ? 2 : 1;
  return series.substr(at, end + 1 - at);
}

bool is_of_the_devices_memory(const std::string& series) {
  const std::string name = series.substr(0, series.find('{'));
  return name.ends_with("_bytes") && name.find("host_memory") == std::string::npos &&
         name.find("bar1") == std::string::npos && name.find("unattributed") == std::string::npos &&
         name.find("unaccounted") == std::string::npos &&
         name.find("exporter") == std::string::npos;
}

// How many could be compared.
int expect_within_totals(const testing::ParsedPage& page) {
  int bounded = 0;
  for (const auto& [series, value] : page.series) {
    if (series.find("_ratio") != std::string::npos) {
      EXPECT_TRUE(value >= 0 && value <= 1) << series;
    }
    if (!is_of_the_devices_memory(series)) continue;
    const std::string total = "vram_gpu_memory_total_bytes{" + label_of(series, "uuid") + "}";
    const auto found = page.series.find(total);
    if (found == page.series.end()) continue;
    EXPECT_LE(value, found->second) << series;
    ++bounded;
  }
  return bounded;
}

TEST(MetricsProperty, NothingIsAboveTheDevicesTotalAndEveryLineCanBeRead) {
  int bounded = 0;
  for (unsigned seed = 0; seed < kMachines; ++seed) {
    SCOPED_TRACE(seed);
    const watch::Sampled sampled = random_machine(seed);
    MetricsOptions options = {.dcgm_names = seed % 2 == 0, .process_series = seed % 9};
    const auto text =
        testing::PageReader(false).read(metrics_text(sampled, testing::full_figures(), options));
    options.format = MetricsFormat::kOpenMetrics;
    const auto open =
        testing::PageReader(true).read(metrics_text(sampled, testing::full_figures(), options));
    EXPECT_EQ(text.series, open.series);
    EXPECT_EQ(text.series.at("vram_exporter_series"), static_cast<double>(text.series.size()));
    bounded += expect_within_totals(text);
  }
  EXPECT_GT(bounded, 10 * kMachines);
}

// Control characters and halves of characters never reach a reader.
TEST(MetricsProperty, TextsDoNothingToATerminal) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::string page =
        metrics_text(random_machine(seed), testing::full_figures(), {.process_series = 9});
    EXPECT_TRUE(std::ranges::none_of(
        page, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f'; }));
    EXPECT_EQ(page.find("\u202e"), std::string::npos);
    EXPECT_EQ(page.find("\u009b"), std::string::npos);
  }
}

}  // namespace
}  // namespace vram::show
