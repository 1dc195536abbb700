// Reading the board (board_page.hpp): what the processes of a user have posted. Nothing is mapped
// and nothing waited for: a page that its owner, or somebody who is not, changes under the reader
// can make an answer an error, never more. Any thread.
#pragma once

#include "base/result.hpp"
#include "record/board_page.hpp"
#include "record/page_file.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::record {

struct BoardReading {
  BoardOwner owner;
  OwnerState state = OwnerState::kDead;
  std::string command;
  std::optional<BoardFigures> figures;  // nothing: not posted yet, or its owner died posting
};

// kNotFound: no page of that pid. kBadInput: what is there is no page, or not of the folder's user.
// kUnsupported: a page of another version.
[[nodiscard]] Result<BoardReading> read_board(const std::string& folder, uint32_t pid);
// What a process of this namespace posted that is known to live, since then: its owner is not asked
// for again. Nothing: no page of its own, or nothing posted yet.
[[nodiscard]] std::optional<BoardFigures> read_living(const std::string& folder, uint32_t pid,
                                                      uint64_t start_ticks, uint64_t pid_namespace);
// The pids of all pages, dead owners' too, in order; a folder that is not there has none.
[[nodiscard]] std::vector<uint32_t> list_board(const std::string& folder);
// The same of a folder that may be somebody else's: nothing if it can't be listed, or holds more
// than so many files of any name.
[[nodiscard]] std::optional<std::vector<uint32_t>> list_small_board(const std::string& folder,
                                                                    size_t max_files);

}  // namespace vram::record
