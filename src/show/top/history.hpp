// History: the last samples of each device, as many as a screen can plot. Bounded; use it from one
// thread at a time.
#pragma once

#include "watch/sampler.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace vram::show::top {

// Shares of the maximum; unknown: no point.
struct HistoryPoint {
  uint64_t time_ns = 0;  // monotonic
  std::optional<float> memory;
  std::optional<float> busy;
  std::optional<float> power;
  std::optional<float> heat;  // of 100 C
};

class History {
 public:
  static constexpr size_t kMaxPoints = 512;

  // Adding the same sample again has no effect.
  void add(const watch::Sampled& sampled);
  // The oldest first; empty for a device that was not seen.
  [[nodiscard]] const std::deque<HistoryPoint>& of(const watch::Device& device) const;
  // Over all links, both directions, since the previous sample; unknown after the first one.
  [[nodiscard]] std::optional<uint64_t> nvlink_bytes_per_second(const watch::Device& device) const;

 private:
  struct Kept {
    std::deque<HistoryPoint> points;
    std::optional<uint64_t> nvlink_bytes;
    std::optional<uint64_t> nvlink_rate;
    uint64_t number = 0;  // the last sample with it
  };
  static void add_to(Kept& kept, const watch::Device& device, uint64_t time_ns);

  std::map<std::string, Kept> kept_;  // by what identifies the device
  uint64_t number_ = 0;
};

}  // namespace vram::show::top
