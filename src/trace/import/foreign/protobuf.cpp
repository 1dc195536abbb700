#include "trace/import/foreign/protobuf.hpp"

#include "base/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::trace {

Result<std::string> read_all(ByteSource& source, const OpenOptions& options, uint64_t max_bytes,
                             std::string_view what) {
  const uint64_t limit = std::min(max_bytes, options.max_decompressed_bytes);
  ByteWindow window(source, {options.max_decompressed_bytes, options.progress});
  size_t there = 0;
  do {
    there = static_cast<size_t>(window.end() - window.begin());
    if (there > limit)
      return fail(Code::kTooLarge, "expected {} of at most {}", what, format_bytes(limit));
    if (!window.refill(window.begin(), there + 1)) return tl::unexpected(*window.error());
  } while (static_cast<size_t>(window.end() - window.begin()) > there);
  return std::string(reinterpret_cast<const char*>(window.begin()), there);
}

}  // namespace vram::trace
