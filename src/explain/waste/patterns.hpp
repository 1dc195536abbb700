// Patterns of waste: memory at the peak that the program could do without, as far as events alone
// show it for certain. docs/findings.md defines each pattern, and names those for which events are
// not enough. Each is a function over the shared index that returns its findings; what they save is
// measured by replaying the recording with the change made.
#pragma once

#include "explain/moment/state.hpp"
#include "explain/report.hpp"
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
// Of host memory, what must be unused to be a finding.
inline constexpr uint64_t kMinPinnedBytes = uint64_t{64} << 20;

using Findings = std::vector<Finding>;

// Of one device. Reads the report's peaks, steps, growth and verdict.
[[nodiscard]] Findings find_patterns(const Sources& sources, const DeviceReport& report);

// Blocks that are needed later than they are there, or no longer (patterns_lifetime.cpp).
[[nodiscard]] Findings gradients_kept(WasteIndex& index);
[[nodiscard]] Findings idle_state(WasteIndex& index);
[[nodiscard]] Findings late_free(WasteIndex& index);
[[nodiscard]] Findings prefetch(WasteIndex& index);
[[nodiscard]] Findings no_grad(WasteIndex& index);

// Blocks that exist twice, or only for a moment (patterns_copies.cpp).
[[nodiscard]] Findings temporaries(WasteIndex& index);
[[nodiscard]] Findings stream_duplicates(WasteIndex& index);
[[nodiscard]] Findings old_model(WasteIndex& index);
[[nodiscard]] Findings equal_parameters(WasteIndex& index);
[[nodiscard]] Findings upcasts(WasteIndex& index);

// What the program does with the driver's memory, and with other devices (patterns_driver.cpp).
[[nodiscard]] Findings driver_churn(WasteIndex& index);
[[nodiscard]] Findings pinned_host(WasteIndex& index);

// The finding, with what the changes save; nothing if that is less than this share of the peak.
[[nodiscard]] Findings finding_if_saved(WasteIndex& index, double min_share, Finding finding,
                                        const std::vector<Change>& changes);

}  // namespace vram::explain
