// History: the last looks at each device, as far as a screen can plot them. One thread at a time;
// bounded, whatever happens.
#pragma once

#include "watch/sampler.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace vram::show::top {

// Shares of what there is at most; unknown is no point.
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

  // A look that was added already changes nothing.
  void add(const watch::Sampled& sampled);
  // The oldest first; empty for a device that was not seen.
  [[nodiscard]] const std::deque<HistoryPoint>& of(const watch::Device& device) const;
  // Over all links, both ways, since the look before; unknown after the first one.
  [[nodiscard]] std::optional<uint64_t> nvlink_bytes_per_second(const watch::Device& device) const;

 private:
  struct Kept {
    std::deque<HistoryPoint> points;
    std::optional<uint64_t> nvlink_bytes;
    std::optional<uint64_t> nvlink_rate;
    uint64_t number = 0;  // of the look that had it last
  };
  static void add_to(Kept& kept, const watch::Device& device, uint64_t time_ns);

  std::map<std::string, Kept> kept_;  // by what identifies the device
  uint64_t number_ = 0;
};

}  // namespace vram::show::top
