// Sweeping the board: pages of dead owners are removed. Only one's own: another user's folder is
// refused, and so is a page of another user within it.
//
// A pid is used again, so the name that a dead process's page had may be a living one's by the time
// it is removed. The page is therefore given another name first, and looked at again under that: a
// living process's goes back. Any thread; several programs may sweep at once.
#pragma once

#include "base/result.hpp"
#include "record/page_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::record {

// Whose pages were removed, by pid. A folder that is not there has none. kIo: the folder is not
// this user's. kUnsupported: the kernel does not say which processes there are.
[[nodiscard]] Result<std::vector<uint32_t>> sweep_board(const std::string& folder);

// Of the page that was opened, and no other that has come under its name since. False: it is not
// there any more.
[[nodiscard]] bool remove_page(const std::string& folder, const PageFile& page);

}  // namespace vram::record
