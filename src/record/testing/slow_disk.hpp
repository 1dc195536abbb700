// The disk under the recordings of this program of tests, as slow as a test wants it: its write()
// is called in place of the C library's.
#pragma once

#include <atomic>

namespace vram::record {

struct SlowDisk {
  std::atomic<int> delay_ms{0};    // of each write to a recording
  std::atomic<bool> hangs{false};  // until it does not any more
  std::atomic<int> hanging_calls{0};
};

[[nodiscard]] SlowDisk& disk();

}  // namespace vram::record
