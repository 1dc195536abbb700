// Removes the status pages of dead owners, only in the user's own folder: other users' folders, and
// other users' pages within it, are refused.
//
// Pids are reused, so the name of a dead process's page may belong to a living process by the time
// it is removed. The page is therefore renamed first and checked again under the new name; the page
// of a living process is renamed back. May be called from any thread; several programs may sweep at
// the same time.
#pragma once

#include "base/result.hpp"
#include "record/page_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::record {

// Returns the pids whose pages were removed. A missing folder has none. kIo: the folder is not this
// user's. kUnsupported: the kernel does not tell which processes exist.
[[nodiscard]] Result<std::vector<uint32_t>> sweep_board(const std::string& folder);

// Removes the opened page, and no page that has got its name since. Returns false if it no longer
// exists.
[[nodiscard]] bool remove_page(const std::string& folder, const PageFile& page);

}  // namespace vram::record
