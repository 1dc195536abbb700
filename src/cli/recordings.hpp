// Recordings: resolves the arguments of a command: files, and folders of recordings.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "trace/open.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::cli {

struct Recordings {
  std::vector<std::string> paths;
  bool is_folder = false;        // at least one word named a folder
  bool are_named_ranks = false;  // each of several by its name: run.rank3.vtrace
};

// A folder stands for the recordings directly in it, sorted by name, without the older parts of
// recordings with a size limit (run.old.vtrace). kBadInput: it has none, or cannot be read.
[[nodiscard]] Result<Recordings> find_recordings(const std::vector<std::string>& words);

// Returns the sorted names of files that other processes of earlier runs wrote for this path:
// run.4711.vtrace, run.rank0.4711.vtrace. None if the folder cannot be read.
[[nodiscard]] std::vector<std::string> left_by_processes(const std::string& path);

// Of "run.rank3.vtrace": 3.
[[nodiscard]] std::optional<uint64_t> rank_in_name(const std::string& path);

// Opening a recording for a command: the options shared by all commands that read one, and progress
// while it is read.

// --max-size, into `target`.
[[nodiscard]] Option max_size_option(trace::OpenOptions& target);

// open_trace() with a progress line.
[[nodiscard]] Result<trace::Trace> open_with_progress(const std::string& path,
                                                      trace::OpenOptions options,
                                                      const Console& console);

}  // namespace vram::cli
