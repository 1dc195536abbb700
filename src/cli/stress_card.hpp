// StressCard: the device of a memory test, opened: a simulated one, or one of
// CUDA's, found by its number in vram status.
#pragma once

#include "base/result.hpp"
#include "stress/card.hpp"
#include "stress/report.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace vram::cli {

class StressCard {
 public:
  virtual ~StressCard() = default;
  [[nodiscard]] virtual stress::Card& card() = 0;
  // Its names; the index if telemetry knows it.
  [[nodiscard]] virtual const stress::StressedDevice& device() const = 0;
};

// Of that many bytes, all real: host memory of this process.
[[nodiscard]] std::unique_ptr<StressCard> simulated_card(uint64_t bytes);

// number: as in the snapshot, if that has devices; else CUDA's own. Without a number: CUDA's first
// device. kNotFound, kUnsupported: the device cannot be used.
[[nodiscard]] Result<std::unique_ptr<StressCard>> cuda_card(const watch::Snapshot& snapshot,
                                                            std::optional<uint32_t> number);

// The device of the snapshot that is this one.
[[nodiscard]] const watch::Device* find_device(const watch::Snapshot& snapshot,
                                               const stress::StressedDevice& device);

}  // namespace vram::cli
