// Opens any recording by its path; its format and compression are detected from the content, not
// the name.
#pragma once

#include "base/result.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace vram::trace {

struct OpenOptions {
  uint64_t max_decompressed_bytes = uint64_t{1} << 40;  // against decompression bombs
  // Called periodically with the decompressed bytes read so far and the total, if known (else 0).
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

// "-" is standard input. Also reads exports of vram convert (import/rows/exported.hpp) and
// recordings of other programs (import/foreign/foreign.hpp). Errors:
// kNotFound, kIo; kBadInput with what was expected, what was found and at which byte; kUnsupported
// for known formats that are no recordings; kTooLarge. A truncated recording is no error: see
// Origin::truncated_at_byte.
[[nodiscard]] Result<Trace> open_trace(const std::string& path, const OpenOptions& options = {});

}  // namespace vram::trace
