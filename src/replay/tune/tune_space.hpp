// TuneSpace: the settings that tune() tries, for one program. Pure values; no replays here.
#pragma once

#include "replay/program.hpp"
#include "replay/replay.hpp"
#include "replay/tune/tune.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace vram::replay {

class TuneSpace {
 public:
  // With a limit, garbage collection can act.
  TuneSpace(const Program& program, bool has_limit);

  // Each value of each key by itself and, where both can act, with expandable segments.
  [[nodiscard]] std::vector<AllocatorSpec> grid() const;
  // Variants with one key changed, added or removed; max_split_size_mb also halfway to the adjacent
  // values.
  [[nodiscard]] std::vector<AllocatorSpec> neighbours(const AllocatorSpec& spec) const;

 private:
  struct Key {
    std::string_view name;
    std::vector<std::string> values;
  };
  void add_changed(const AllocatorSpec& spec, std::string_view key, const std::string& value,
                   std::vector<AllocatorSpec>& specs) const;
  void add_halfway(const AllocatorSpec& spec, std::vector<AllocatorSpec>& specs) const;

  std::vector<Key> keys_;
  std::vector<uint64_t> split_mebibytes_;
  bool has_limit_;
};

// Settings in the order of the registry's keys, so that equal ones are written equally.
[[nodiscard]] AllocatorSpec normalised(AllocatorSpec spec);
// The value of a key; empty if it is not set.
[[nodiscard]] std::string_view value_of(const AllocatorSpec& spec, std::string_view key);
[[nodiscard]] bool is_expandable(const AllocatorSpec& spec);

// Values of max_split_size_mb with which this program may behave differently: powers of two up to
// beyond the largest request, and both sides of the sizes with most requested bytes.
[[nodiscard]] std::vector<uint64_t> split_sizes_mb(const Program& program);

// Orders tune()'s candidates: by completion, refused requests, reserved peak, time in the driver,
// retries; if these are practically equal, by fewer settings. Figures are put into classes counted
// from the best, so that "practically equal" is transitive and no settings are recommended for a
// gain within the noise.

// What counts of one candidate; equal classes are as good as each other. Smaller is better.
struct TuneClass {
  bool ran_out = false;
  uint64_t left_undone = 0;  // events after the OOM
  uint64_t caught_ooms = 0;  // refused again; the recorded program continued without
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
