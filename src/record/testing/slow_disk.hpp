// The disk of this test program, with a configurable speed: its write() replaces the C library's.
#pragma once

#include <atomic>

namespace vram::record {

struct SlowDisk {
  std::atomic<int> delay_ms{0};    // of each write to a recording
  std::atomic<bool> hangs{false};  // until it is false again
  std::atomic<int> hanging_calls{0};
};

[[nodiscard]] SlowDisk& disk();

}  // namespace vram::record
