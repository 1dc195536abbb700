// The one way in: any recording by its path, whatever its format and compression, told by its
// content, not its name.
#pragma once

#include "base/result.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace vram::trace {

struct OpenOptions {
  uint64_t max_decompressed_bytes = uint64_t{1} << 40;  // against decompression bombs
  // Called now and then with decompressed bytes read so far and, where known, the total (else 0).
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

// "-" is standard input. Exports of vram convert are read back, too (import/rows/exported.hpp).
// Errors: kNotFound, kIo; kBadInput with what was expected, what was found and at which byte;
// kUnsupported for known formats that are not recordings; kTooLarge. A truncated recording is no
// error: see Origin::truncated_at_byte.
[[nodiscard]] Result<Trace> open_trace(const std::string& path, const OpenOptions& options = {});

}  // namespace vram::trace
