// Options of a pool: what is chosen between memory and time in the driver. Measured defaults. A
// value.
#pragma once

#include "base/bytes.hpp"

#include <cstdint>

namespace vram::pool {

enum class Backing : uint8_t {
  kVirtual,   // handles, mapped
  kSegments,  // for devices that can't map: nothing can be stitched, and only whole ones go back
};

struct Options {
  Backing backing = Backing::kVirtual;
  // The largest handle, but for what one request lacks: that may come in some twice as large.
  // Smaller ones pack better under pressure, larger ones are mapped sooner.
  uint64_t handle_bytes = 20 * kMiB;
  // New memory comes in steps of at least this part of the peak of live bytes.
  uint32_t growth_divisor = 96;
  // Reserved may pass the peak of live bytes by so much before free pieces are stitched instead.
  uint32_t slack_permille = 2;
  // And by so much more before a stream is made to wait for memory that another one freed.
  uint32_t patience_permille = 30;
  // Stitches that may stay mapped, in percent of the reserved bytes.
  uint32_t stitched_percent = 200;
  // While threads compete, reserved may pass what is live and lent by so much before all that is
  // lent comes back.
  uint32_t competing_permille = 250;
};

}  // namespace vram::pool
