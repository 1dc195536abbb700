// Subject: identifies what an alert is about, by numbers, since hundreds are made in each sample;
// and a rule's value for it.
#pragma once

#include "watch/sampler.hpp"

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vram::alerts {

inline constexpr uint32_t kNoNumber = std::numeric_limits<uint32_t>::max();

struct Subject {
  uint32_t device = kNoNumber;  // Measurer's number of it
  uint32_t source = kNoNumber;  // the same of a source
  uint32_t gpu_instance = kNoNumber;
  uint32_t compute_instance = kNoNumber;
  uint32_t pid = kNoNumber;
  uint64_t start_ticks = 0;  // of the process; 0: unknown
  uint64_t xid = 0;

  auto operator<=>(const Subject&) const = default;
};

// The pointers refer to the value's origin, for the alert's texts, which are made only when an
// alert is sent. They are valid until the next sample.
struct Measured {
  Subject subject;
  std::optional<double> value;
  bool counts = true;  // false: whatever the value, too little is at stake
  const gpu::DeviceIdentity* identity = nullptr;
  const watch::Device* device = nullptr;  // null: not in this sample
  const watch::Process* process = nullptr;
  const watch::Use* use = nullptr;
  std::optional<uint64_t> free_bytes;  // of the memory that is judged
  double per_second = 0;               // bytes: a trend's slope
  const std::string* text = nullptr;   // a source's note
};

// A sample, or the state of one that has not ended.
struct SampleView {
  const watch::Sampled& sampled;
  uint64_t now_ns = 0;      // monotonic; never decreases between samples
  uint64_t overdue_ns = 0;  // of a sample that has not ended
};

}  // namespace vram::alerts
