// Subject: what one alert of a rule is about, as numbers, since hundreds are made at each look. And
// a rule's value for it.
#pragma once

#include "watch/sampler.hpp"

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vram::watch {

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

// The pointers say where the value comes from, for the alert's words, which are made only when
// somebody is to be told. They are good until the next look.
struct Measured {
  Subject subject;
  std::optional<double> value;
  bool counts = true;  // false: whatever the value, too little is at stake
  const gpu::DeviceIdentity* identity = nullptr;
  const Device* device = nullptr;  // null: it is not in this look
  const Process* process = nullptr;
  const Use* use = nullptr;
  std::optional<uint64_t> free_bytes;  // of the memory that is judged
  double per_second = 0;               // bytes: a trend's slope
  const std::string* text = nullptr;   // what a source says
};

// A look at the machine, or at one that has not ended.
struct SampleView {
  const Sampled& sampled;
  uint64_t now_ns = 0;      // monotonic, and never before that of an earlier look
  uint64_t overdue_ns = 0;  // of a look that has not ended
};

}  // namespace vram::watch
