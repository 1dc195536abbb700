// Reads status pages (board_page.hpp) of a user's processes. Maps nothing and waits for nothing:
// whoever changes a page during a read can only cause an error. May be called from any thread.
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

// kNotFound: no page of that pid. kBadInput: not a page, or not of the folder's user. kUnsupported:
// a page of another version.
[[nodiscard]] Result<BoardReading> read_board(const std::string& folder, uint32_t pid);
// Returns the figures of a process in this namespace that is known to be alive; its owner is not
// checked again. Nothing: no page of its own, or nothing posted yet.
[[nodiscard]] std::optional<BoardFigures> read_living(const std::string& folder, uint32_t pid,
                                                      uint64_t start_ticks, uint64_t pid_namespace);
// The pids of all pages, dead owners' too, in order; a folder that is not there has none.
[[nodiscard]] std::vector<uint32_t> list_board(const std::string& folder);
// As list_board(), for an untrusted folder: nothing if it cannot be listed, or contains more than
// `max_files` files.
[[nodiscard]] std::optional<std::vector<uint32_t>> list_small_board(const std::string& folder,
                                                                    size_t max_files);

}  // namespace vram::record
