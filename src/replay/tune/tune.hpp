// tune(): which settings of PyTorch's allocator serve a recorded program best, found by replaying
// it with many: first a grid that people could set by hand, then the best few changed one key at a
// time. Other registered allocators are replayed beside them with their defaults.
//
//     tune_space (candidates) ──▶ tune (replays on a pool of threads) ──▶ tune_rank (order)
//
// The same program and recorded settings give the same result, whatever the number of threads.
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
  // After each replay; planned grows when the search goes on. By any thread, one at a time.
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
  kRecordedIsBest,  // nothing is better by what counts
  kNoneCompletes,   // what is alive would fit, but nothing that was tried completes
  kPeakIsBefore,    // nothing to compare with: the peak lies before the recording
  kCannotFit,       // what is alive at once exceeds the capacity: no allocator can help
};

struct TuneResult {
  TuneVerdict verdict = TuneVerdict::kRecordedIsBest;
  std::vector<TuneCandidate>
      ranked;  // settings of PyTorch, best first; the recorded ones among them
  std::vector<TuneCandidate> others;  // other allocators, best first
  size_t recorded = 0;                // where they are in ranked
  size_t replays = 0;                 // made
  uint64_t peak_live_bytes = 0;       // of the program itself (peak_live_bytes())
};

// How each candidate is replayed. Whoever compares replays with those of tune() makes them so, too.
[[nodiscard]] ReplayOptions tune_replay_options(const TuneOptions& options);

// `recorded`: what the program ran with (recorded_spec), settings of PyTorch that were checked.
[[nodiscard]] TuneResult tune(const Program& program, const AllocatorSpec& recorded,
                              const TuneOptions& options);

}  // namespace vram::replay
