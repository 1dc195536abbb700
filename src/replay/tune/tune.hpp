// tune(): finds the best settings of PyTorch's allocator for a recorded program by replaying it
// with many: first a grid of common settings, then the best ones with one key changed at a time.
// Other registered allocators are replayed with their defaults for comparison.
//
//     TuneSpace (candidates) ──▶ tune (replays on a pool of threads) ──▶ TuneRank (order)
//
// The same program and recorded settings give the same result with any number of threads.
#pragma once

#include "replay/program.hpp"
#include "replay/replay.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vram::replay {

struct TuneOptions {
  std::optional<uint64_t> capacity_bytes;  // limit on reserved bytes
  bool capacity_is_fraction = false;       // as in ReplayOptions
  unsigned jobs = 0;                       // threads; 0: one for each core
  // Called after each replay, by any thread, one at a time; planned grows if the search continues.
  std::function<void(size_t done, size_t planned)> progress;
  int64_t lag_ns = 10'000'000;  // as in ReplayOptions
};

struct TuneCandidate {
  AllocatorSpec spec;
  ReplayResult result;  // without a curve
  bool is_recorded = false;
  size_t tier = 0;  // 0 for the best; candidates of one tier are as good as each other
};

enum class TuneVerdict : uint8_t {
  kBetter,          // the first candidate is better than the recorded settings
  kRecordedIsBest,  // no candidate ranks better
  kNoneCompletes,   // the live memory would fit, but the program completes with no candidate
  kPeakIsBefore,    // nothing to compare with: the peak is before the recording
  kCannotFit,       // live memory exceeds the capacity: no allocator can help
};

struct TuneResult {
  TuneVerdict verdict = TuneVerdict::kRecordedIsBest;
  // settings of PyTorch, best first; the recorded ones among them
  std::vector<TuneCandidate> ranked;
  std::vector<TuneCandidate> others;  // other allocators, best first
  size_t recorded = 0;                // the index of the recorded settings in ranked
  size_t replays = 0;                 // made
  uint64_t peak_live_bytes = 0;       // of the program itself (peak_live_bytes())
};

// How candidates are replayed. Use it for replays that are compared with those of tune().
[[nodiscard]] ReplayOptions tune_replay_options(const TuneOptions& options);

// `recorded`: the settings of the recorded program (recorded_spec), checked PyTorch settings.
[[nodiscard]] TuneResult tune(const Program& program, const AllocatorSpec& recorded,
                              const TuneOptions& options);

}  // namespace vram::replay
