// Reads a whole .vtrace file into a Trace. A file that ends within a frame, or contains a damaged
// one, gives everything before it, with Origin::truncated_at_byte and a note. All contents are
// checked before use. Not thread-safe; allocates what the Trace needs and the buffers of one frame.
// docs/vtrace.md specifies the format.
#pragma once

#include "base/result.hpp"
#include "trace/open.hpp"
#include "trace/trace.hpp"

#include <string>
#include <string_view>

namespace vram::trace {

class VtraceSource;

// Whether a file that starts with these bytes (8 are enough) is a .vtrace file, of whatever
// version.
[[nodiscard]] bool is_vtrace(std::string_view first_bytes);

// Errors, which `path` begins: kIo; kBadInput where not even the file's header is there;
// kUnsupported for newer versions; kTooLarge past OpenOptions::max_decompressed_bytes.
[[nodiscard]] Result<Trace> read_vtrace(const VtraceSource& source, const std::string& path,
                                        const OpenOptions& options = {});

}  // namespace vram::trace
