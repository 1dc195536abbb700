// Playback: plays a recording as if it were a device at work, to try monitoring without a GPU. One
// device, used by one process (this one), which publishes what its allocator held at that time of
// the recording; at the end it starts again.
//
//     Playable ──▶ Playback ──▶ PlayedGpu, a gpu::Telemetry ──▶ sources
//                           └─▶ Postings: the allocator's figures, of the same moment
//
// Use it from one thread at a time; a sample takes one search in a sorted list.
#pragma once

#include "base/result.hpp"
#include "gpu/telemetry.hpp"
#include "watch/boards.hpp"
#include "watch/sources.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::watch {

struct PlayedPoint {
  uint64_t time_ns = 0;  // since the recording's beginning
  uint64_t allocated_bytes = 0;
  uint64_t reserved_bytes = 0;
};

struct Playable {
  std::vector<PlayedPoint> points;  // by time, at least one; the first one's time is 0
  uint64_t length_ns = 1;           // after which it starts again
  uint32_t device = 0;              // its number in the recording
  // Nothing: not recorded. Then, and where more was reserved, a round size that has room for all.
  std::optional<uint64_t> total_bytes;
  std::string name = "simulated GPU";  // that the device is shown by
};

class Playback final : public Postings {
 public:
  // Plays from now on.
  explicit Playback(Playable playable, std::function<uint64_t()> clock = monotonic_ns);

  // At this time.
  [[nodiscard]] gpu::DeviceSample take_sample();
  // Of the last sample; only of this process.
  [[nodiscard]] std::optional<record::BoardFigures> figures_of(const ProcessFacts& facts) override;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Figures {
    PlayedPoint point;
    uint64_t peak_bytes = 0;  // of allocated_bytes, up to here
  };
  std::vector<Figures> figures_;
  uint64_t length_ns_;
  uint32_t device_;
  std::optional<uint64_t> total_bytes_;
  std::string name_;
  std::function<uint64_t()> clock_;
  uint64_t begin_ns_;
  Figures now_;
};

class PlayedGpu final : public gpu::Telemetry {
 public:
  explicit PlayedGpu(std::shared_ptr<Playback> playback) : playback_(std::move(playback)) {}
  [[nodiscard]] Result<uint32_t> device_count() const override { return 1U; }
  [[nodiscard]] gpu::DeviceIdentity identity(uint32_t index) const override;
  [[nodiscard]] gpu::DeviceHealth health(uint32_t /*index*/) const override { return {}; }
  [[nodiscard]] gpu::DeviceSample sample(uint32_t index) const override;

 private:
  std::shared_ptr<Playback> playback_;
};

}  // namespace vram::watch
