// Reads status pages (board_page.hpp) of a user's processes. Maps nothing and waits for nothing:
// a process that changes a page during a read can only cause an error. May be called from any
// thread.
#pragma once

#include "base/result.hpp"
#include "record/board_page.hpp"

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

// Removes the status pages of dead owners, only in the user's own folder: other users' folders, and
// other users' pages within it, are refused.
//
// Pids are reused, so the name of a dead process's page may belong to a living process by the time
// it is removed. The page is therefore renamed first and checked again under the new name; the page
// of a living process is renamed back. May be called from any thread; several programs may sweep at
// the same time.

// Returns the pids whose pages were removed. A missing folder has none. kIo: the folder is not this
// user's. kUnsupported: the kernel does not tell which processes exist.
[[nodiscard]] Result<std::vector<uint32_t>> sweep_board(const std::string& folder);

// Removes the opened page, and no page that has got its name since. Returns false if it no longer
// exists.
[[nodiscard]] bool remove_page(const std::string& folder, const PageFile& page);

}  // namespace vram::record
