// Asks a running process, through its status page, to record itself for a while. The process writes
// the recording into the folder of its status page; the caller takes it from there. Of this user's
// processes only, as root of all users'.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::watch {

// Both nothing: what a flight recorder has retained, at once.
struct RecordOrder {
  std::optional<uint64_t> steps;
  std::optional<uint64_t> duration_ns;
};

// Returns the complete recording, open for reading; its name is removed. Waits at most timeout_ns.
// kNotFound: none of the folders has a page of that process, or it has no flight recorder.
// kBadInput, kUnsupported: it cannot be asked. kIo: it did not answer, ended, or could not record;
// the message has the reason.
[[nodiscard]] Result<Descriptor> request_recording(const std::vector<std::string>& folders,
                                                   uint32_t pid, const RecordOrder& order,
                                                   uint64_t timeout_ns);

// Writes a recording that request_recording() returned to a file, which appears when it is
// complete, and returns its size in bytes. kBadInput: the existing file may not be replaced. kIo:
// the recording has holes, or the process still changes it; no file appears then.
[[nodiscard]] Result<uint64_t> save_recording(const Descriptor& recording, const std::string& path,
                                              Replace replace = Replace::kOwn);

}  // namespace vram::watch
