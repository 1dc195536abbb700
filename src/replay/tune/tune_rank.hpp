// Orders tune()'s candidates: by completion, refused requests, reserved peak, time in the driver,
// retries; if these are practically equal, by fewer settings. Figures are put into classes counted
// from the best, so that "practically equal" is transitive and no settings are recommended for a
// gain within the noise.
#pragma once

#include "replay/tune/tune.hpp"

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace vram::replay {

// What counts of one candidate; equal classes are as good as each other. Smaller is better.
struct TuneClass {
  bool ran_out = false;
  uint64_t left_undone = 0;  // events after the OOM
  uint64_t caught_ooms = 0;  // refused again; the recorded program went on without
  bool is_unsure = false;    // addresses decide whether it completes
  bool needs_code = false;   // exporting the settings is not enough
  uint64_t reserved = 0;     // in steps of 1 % of the smallest peak
  uint64_t driver_time = 0;  // in steps of 1 % of the recorded time, of 10 ms at least
  uint64_t retries = 0;      // in orders of magnitude
  friend auto operator<=>(const TuneClass&, const TuneClass&) = default;
};

class TuneRank {
 public:
  // The candidates that are compared, and how long the recorded program took.
  TuneRank(std::span<const TuneCandidate> candidates, int64_t duration_ns);

  [[nodiscard]] TuneClass class_of(const TuneCandidate& candidate) const;
  // A total order: with equal classes, fewer settings first, then settings of older PyTorch
  // versions, then the figures themselves, then the text.
  [[nodiscard]] bool is_better(const TuneCandidate& a, const TuneCandidate& b) const;
  // Best first, with their tiers.
  void sort(std::vector<TuneCandidate>& candidates) const;

 private:
  uint64_t min_reserved_ = 0;
  uint64_t reserved_step_ = 1;
  int64_t min_time_ns_ = 0;
  int64_t time_step_ns_ = 1;
  bool recorded_collects_ = false;
};

}  // namespace vram::replay
