// Runs `vram report` on a recording in a process of its own: what a file contains can neither end
// nor block the server, and its memory is given back. The process has limits on time, memory and
// output, gets the open file instead of a path, and ends with the thread that started it.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace vram::serve {

struct ReportLimits {
  std::chrono::milliseconds time{300'000};
  uint64_t memory_bytes = uint64_t{16} << 30;
  uint64_t output_bytes = uint64_t{1} << 30;
};

struct ReportRun {
  std::string program;  // "/proc/self/exe"
  // A private folder: there it finds the recording by `name`, writes "output" (standard output) and
  // "errors".
  std::string folder;
  std::string name;                    // a file's name, without a slash
  std::vector<std::string> arguments;  // after "report" and the path
};

// Waits until it ends, at most for `limits.time`, or until `must_end`; then it is killed.
// kBadInput: it failed; the message is its own.
[[nodiscard]] Result<> run_report(const ReportRun& run, const Descriptor& recording,
                                  const ReportLimits& limits, const std::atomic<bool>& must_end);

}  // namespace vram::serve
