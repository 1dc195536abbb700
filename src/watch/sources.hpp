// Sources: all sources of GPU figures on this machine. A device's identity is read when its source
// is opened, its health every few seconds, its sample at each tick. A source that fails leaves a
// note and is retried after increasing pauses; the others continue.
//
//     Opener ──▶ gpu::Telemetry ──▶ identity, health, sample ──▶ DeviceReading ──▶ rates,
//     take_snapshot
//
// Use it from one thread at a time; read() takes as long as the calls of the sources.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"
#include "gpu/telemetry.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vram::watch {

struct Opener {
  std::string name;  // for notes: "NVML"
  std::function<Result<std::unique_ptr<gpu::Telemetry>>()> open;
};

// Of a function that opens a source by value: opener_of("NVML", [] { return Nvml::open(); })
template <typename Open>
Opener opener_of(std::string name, Open open) {
  return {std::move(name), [open = std::move(open)]() -> Result<std::unique_ptr<gpu::Telemetry>> {
            VRAM_TRY_ASSIGN(auto source, open());
            using Kind = std::remove_reference_t<decltype(source)>;
            return std::make_unique<Kind>(std::move(source));
          }};
}

struct DeviceReading {
  uint64_t time_ns = 0;  // of the sample, by the sources' clock
  // Identity and sample have the device's place among all sources' devices as their index.
  gpu::DeviceIdentity identity;
  gpu::DeviceHealth health;
  gpu::DeviceSample sample;
  // reported since the last reading; unknown: not reported
  std::optional<std::vector<uint64_t>> new_xids;
  std::optional<std::vector<XidCount>> xids;  // by XidTally
};

struct Readings {
  std::vector<DeviceReading> devices;
  std::vector<std::string> notes;
};

// What stays a device's own when indices change: its uuid, else its PCI id; "" where both are
// unknown.
[[nodiscard]] std::string key_of(const gpu::DeviceIdentity& identity);

[[nodiscard]] uint64_t monotonic_ns();

struct SourcesOptions {
  uint64_t health_period_ns = 5'000'000'000;
  uint64_t first_pause_ns = kSecondNs;
  uint64_t max_pause_ns = 30'000'000'000;
  uint64_t release_pause_ns = 30'000'000'000;
  std::function<uint64_t()> clock = monotonic_ns;
};

class Sources {
 public:
  explicit Sources(std::vector<Opener> openers, SourcesOptions options = {});
  Sources(Sources&&) noexcept;
  Sources& operator=(Sources&&) = delete;
  ~Sources();

  // Devices of a failed source are kept, with the failure as their `trouble`, until the source
  // works again.
  [[nodiscard]] Readings read();

  // Closes all sources, so that a driver can be unloaded or a device can be repartitioned. read()
  // opens them again after a pause; until then a note states it.
  void release();

 private:
  class Slot;
  SourcesOptions options_;
  std::vector<Slot> slots_;
};

}  // namespace vram::watch
