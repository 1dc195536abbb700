// ReservedReplay: the reserved peak if the program allocated and released blocks at other times:
// its requests, with the change made, are replayed on the recorded allocator.
//
// Not made (nullopt) where a replay without changes does not reproduce the recorded peak, where the
// program ran out of memory or memory was given back (then a limit decides, too), and for changes
// other than a single earlier release, later allocation or removal of a recorded block. Each replay
// takes about as long as the replay of the history. Use an object from one thread at a time.
#pragma once

#include "explain/moment/state.hpp"
#include "explain/report.hpp"
#include "explain/waste/peak_replay.hpp"
#include "replay/baseline.hpp"
#include "replay/program.hpp"
#include "replay/replay.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vram::explain {

class ReservedReplay {
 public:
  ReservedReplay(const Sources& sources, const DeviceReport& report,
                 const replay::Baseline& baseline);

  // What the changes take off the reserved peak; 0 if it does not fall.
  [[nodiscard]] std::optional<uint64_t> saved_by(std::span<const Change> changes);
  // ... and what it does if these blocks are allocated before all others of the recording.
  [[nodiscard]] std::optional<uint64_t> saved_by_moving_first(std::span<const uint32_t> lifetimes);

 private:
  struct Edit;
  [[nodiscard]] std::optional<uint64_t> saved_with(const std::vector<Edit>& edits);
  [[nodiscard]] std::optional<PodVector<replay::Op>> changed_ops(
      const std::vector<Edit>& edits) const;

  const History& history_;
  replay::AllocatorSpec spec_;
  replay::Program program_;
  std::optional<uint64_t> peak_;  // of the replay without changes, if it can be trusted
};

}  // namespace vram::explain
