// A side of a comparison: one recording or several, of other ranks, or runs of the same rank again.
// The peak of a device is then that of its median run (the lower of an even number), an actual run,
// so that the bytes of its sites add up; the other runs say how far peaks vary without a change.
#pragma once

#include "explain/diff/peaks.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::explain {

struct SideDevice {
  DevicePeak peak;  // of the median run
  uint64_t runs = 1;
  uint64_t mad_bytes = 0;  // median absolute deviation of the runs' peaks
  uint64_t runs_with_oom = 0;
};

struct Side {
  std::string name;
  std::vector<SideDevice> devices;  // by rank, GPUs before host memory, ordinal
};

// Recordings of which none has a rank are processes of one run if all of them overlap in time, or
// of several runs if they overlap in groups of equal size; they are then ranks in the order of
// their paths. Else they are runs.
[[nodiscard]] Side make_side(std::string name, std::vector<RunPeaks> runs);

}  // namespace vram::explain
