// Asks a running process, through its status page, for something that it leaves as a file in the
// folder of the page, from where it is taken. Of this user's processes only, as root of all users'.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"
#include "record/board_page.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace vram::watch {

struct FileRequest {
  record::BoardSlot slot = record::BoardSlot::kRecord;
  record::PageOrder order = {};
  // Returns the file of the answer to the request with this number.
  std::function<std::string(const std::string& folder, uint32_t pid, uint64_t number)> path;
  std::string failed;  // what happened if the process says that it could not
  std::string silent;  // and why it may not have answered in time
};

// Returns the complete file, open for reading; its name is removed. Waits at most timeout_ns.
// kNotFound: none of the folders has a page of that process, or it does not answer such requests.
// kBadInput, kUnsupported: it cannot be asked. kIo: it did not answer, ended, or could not; the
// message has the reason.
[[nodiscard]] Result<Descriptor> request_file(const std::vector<std::string>& folders, uint32_t pid,
                                              const FileRequest& request, uint64_t timeout_ns);

// Opens a file that a process of user `owner` left, and removes its name. The process may belong to
// another user than the caller, who may be root: a link, a pipe, another user's file or one with
// several names is refused with kIo and not opened for reading.
[[nodiscard]] Result<Descriptor> take_answer(const std::string& path, uid_t owner);

}  // namespace vram::watch
