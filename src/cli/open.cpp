#include "cli/open.hpp"

#include "base/bytes.hpp"
#include "cli/progress.hpp"

namespace vram::cli {

Option max_size_option(std::string& target) {
  return {"--max-size", "SIZE", "maximum size of a decompressed recording (1TiB)", &target};
}

Result<trace::Trace> open_with_progress(const std::string& path, const std::string& max_size,
                                        const Console& console) {
  trace::OpenOptions options;
  if (!max_size.empty()) {
    const auto size = parse_bytes(max_size);
    if (!size) return fail(Code::kBadInput, "--max-size: {}", size.error().message);
    options.max_decompressed_bytes = *size;
  }
  Progress progress(console, path);
  options.progress = progress.callback();
  Result<trace::Trace> trace = trace::open_trace(path, options);
  if (!trace && trace.error().code == Code::kTooLarge) {
    trace.error().message += "; --max-size raises it";
  }
  return trace;
}

}  // namespace vram::cli
