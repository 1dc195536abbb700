// The sides of vram diff: recordings, folders of them, or a baseline, read in parallel; and the
// paths of their source files as the repository has them.
#pragma once

#include "base/result.hpp"
#include "cli/console.hpp"
#include "explain/diff/diff.hpp"
#include "trace/open.hpp"

#include <string>
#include <vector>

namespace vram::cli {

struct SideRequest {
  std::vector<std::string> words;  // files and folders; the first names the side
  bool accepts_incomplete = false;
  trace::OpenOptions reading;
};

struct LoadedSide {
  explain::Side side;
  std::vector<std::string> incomplete;  // which recordings, and why
};

// A file of vram diff --save-baseline, by its name or its first bytes.
[[nodiscard]] bool is_baseline(const std::string& path);

// kBadInput: a recording cannot be read, or is incomplete and not accepted; or a baseline is not
// the only word.
[[nodiscard]] Result<LoadedSide> load_side(const SideRequest& request, const Console& console);

// Makes the paths of source files relative to `root`, of those that are below it, or, recorded in
// another checkout, have the longest path that exists below it.
void make_relative(explain::Side& side, const std::string& root);

}  // namespace vram::cli
