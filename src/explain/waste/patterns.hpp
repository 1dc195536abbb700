// Patterns of waste: memory at the peak that the program could do without, as far as events alone
// show it for certain. docs/findings.md defines each pattern, and names those for which events are
// not enough. Each is a function over the shared index that returns its findings; what they save is
// measured by replaying the recording with the change made.
#pragma once

#include "explain/moment/state.hpp"
#include "explain/report.hpp"
#include "explain/waste/reserved_replay.hpp"
#include "explain/waste/waste_index.hpp"

#include <vector>

namespace vram::explain {

// Of the requested peak, what a change must save to be a finding.
inline constexpr double kMinSavedShare = 0.01;
// ... for patterns that are a price of the computation rather than a mistake.
inline constexpr double kMinPriceShare = 0.05;
// From its allocation to its release, a temporary lives for so many events.
inline constexpr int64_t kMaxTemporaryEvents = 64;
// Sets of blocks that repeat each other have this many at least.
inline constexpr size_t kMinSetBlocks = 10;
inline constexpr uint64_t kMinRepetitions = 3;
inline constexpr double kMinUnevenRatio = 1.2;
// Of host memory, what must be unused to be a finding.
inline constexpr uint64_t kMinPinnedBytes = uint64_t{64} << 20;

// A finding, and the change that it proposes.
struct Pattern {
  Finding finding;
  std::vector<Change> changes;
};
using Patterns = std::vector<Pattern>;

// Replays of the allocator are made for so many findings of a device, the largest.
inline constexpr size_t kMaxReservedReplays = 3;

// Of one device. Reads the report's peaks, states, steps, OOMs and verdict. `baseline`: the result
// of replay::find_baseline().
[[nodiscard]] std::vector<Finding> find_patterns(const Sources& sources, const DeviceReport& report,
                                                 const replay::Baseline& baseline);

// Blocks that are allocated too early or released too late (patterns_lifetime.cpp; no_grad in
// patterns_no_grad.cpp).
[[nodiscard]] Patterns gradients_kept(WasteIndex& index);
[[nodiscard]] Patterns idle_state(WasteIndex& index);
[[nodiscard]] Patterns late_free(WasteIndex& index);
[[nodiscard]] Patterns prefetch(WasteIndex& index);
[[nodiscard]] Patterns no_grad(WasteIndex& index);

// Blocks that exist twice, or only for a moment (patterns_copies.cpp).
[[nodiscard]] Patterns temporaries(WasteIndex& index);
[[nodiscard]] Patterns stream_duplicates(WasteIndex& index);
[[nodiscard]] Patterns old_model(WasteIndex& index);
[[nodiscard]] Patterns equal_parameters(WasteIndex& index);
[[nodiscard]] Patterns upcasts(WasteIndex& index);

// Blocks that stay among blocks that come and go (patterns_segments.cpp); whether that may be.
[[nodiscard]] bool may_have_mixed_segments(const WasteIndex& index);
[[nodiscard]] std::vector<Finding> mixed_lifetimes(WasteIndex& index, ReservedReplay& replay);

// What the program does with the driver's memory, and with other devices (patterns_driver.cpp).
[[nodiscard]] Patterns driver_churn(WasteIndex& index);
[[nodiscard]] Patterns pinned_host(WasteIndex& index);
// A finding only if the GPU's peak is uneven, which keep_uneven_gpus() sees.
[[nodiscard]] Patterns data_parallel(WasteIndex& index);
// Removes those findings from GPUs whose peak is not kMinUnevenRatio times the median of the
// others.
void keep_uneven_gpus(std::vector<DeviceReport>& devices);

// The finding, with what the changes save; nothing if that is less than this share of the peak.
[[nodiscard]] Patterns finding_if_saved(WasteIndex& index, double min_share, Finding finding,
                                        const std::vector<Change>& changes);

}  // namespace vram::explain
