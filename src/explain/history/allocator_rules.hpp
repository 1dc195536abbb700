// AllocatorRules: determines the size of recorded blocks: PyTorch's rounding and splitting
// (replay/peers/torch_rules.hpp) with the recorded settings, or those of vram's pool, by segment,
// since a process may use both.
#pragma once

#include "replay/peers/torch_rules.hpp"
#include "replay/peers/vram_rules.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace vram::explain {

using replay::kSmallRequestBytes;
using replay::kSmallSegmentBytes;

class AllocatorRules {
 public:
  AllocatorRules() : AllocatorRules(replay::TorchSettings{}) {}
  // never_splits: for torch's pinned-memory allocator, which uses whole segments.
  explicit AllocatorRules(replay::TorchSettings settings, bool never_splits = false)
      : torch_(segment_by_segment(settings)), never_splits_(never_splits) {}

  // is_of_vram: in a segment of vram's pool.
  [[nodiscard]] uint64_t round(uint64_t requested_bytes, bool is_of_vram = false) const {
    return is_of_vram ? replay::round_as_vram(requested_bytes) : torch_.round(requested_bytes);
  }
  // Is the segment whose event has this context of vram's pool?
  [[nodiscard]] bool is_of_vram(trace::ContextId context) const {
    return context < contexts_of_vram_.size() && contexts_of_vram_[context];
  }
  // Whether `remaining` is split off when a block of `rounded` bytes is taken from the low end of a
  // free one.
  [[nodiscard]] bool splits(uint64_t rounded, uint64_t remaining, bool small_or_expandable) const {
    return !never_splits_ && torch_.splits(rounded, remaining, small_or_expandable);
  }
  [[nodiscard]] uint64_t max_split_bytes() const { return torch_.settings().max_split_bytes; }
  // What expandable segments map and unmap at a time.
  [[nodiscard]] uint64_t granule_bytes(bool is_small) const {
    return torch_.granule_bytes(is_small);
  }

  void set_contexts_of_vram(std::vector<bool> contexts) { contexts_of_vram_ = std::move(contexts); }

 private:
  static replay::TorchSettings segment_by_segment(replay::TorchSettings settings) {
    settings.expandable_segments = false;
    return settings;
  }

  replay::TorchRules torch_;
  bool never_splits_;
  std::vector<bool> contexts_of_vram_;  // by ContextId; empty if there is none
};

// Those of a device; pinned memory has none of the settings.
[[nodiscard]] AllocatorRules rules_of(const trace::Trace& trace, trace::DeviceKind kind);

}  // namespace vram::explain
