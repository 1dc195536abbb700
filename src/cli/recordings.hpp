// Recordings: what the words on the command line stand for: files, and folders full of them.
#pragma once

#include "base/result.hpp"

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

// A folder stands for the recordings directly in it, by name; the older parts of recordings with a
// size limit (run.old.vtrace) are left out. kBadInput: it has none, or can't be read.
[[nodiscard]] Result<Recordings> find_recordings(const std::vector<std::string>& words);

// What processes beside the first wrote of earlier runs recorded to this path: run.4711.vtrace,
// run.rank0.4711.vtrace. Their names, sorted; none where the folder can't be read.
[[nodiscard]] std::vector<std::string> left_by_processes(const std::string& path);

// Of "run.rank3.vtrace": 3.
[[nodiscard]] std::optional<uint64_t> rank_in_name(const std::string& path);

}  // namespace vram::cli
