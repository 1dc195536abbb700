// PageFile: a file of the board (board_page.hpp), opened without trust in what lies there: another
// program may have put a link, a pipe or a short file in its place, and may change it at any time.
// Read and written by calls of the kernel, never mapped: a file that shrinks is an error, no
// SIGBUS.
//
//     folder, pid ──▶ PageFile ──▶ board_reader (reads), TrimRequester (asks), sweep (removes)
//
// One thread at a time.
#pragma once

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "record/board_page.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <utility>

namespace vram::record {

enum class OwnerState : uint8_t {
  kAlive,
  kDead,            // it left its page behind; perhaps another process has its pid by now
  kOtherNamespace,  // its pid counts in another namespace (a container): not to be known from here
};

class PageFile {
 public:
  enum class Access : uint8_t { kRead, kReadAndWrite };
  // Of the processes of this pid, that of this pid namespace if it has a page. kNotFound: no page
  // of that pid. kBadInput: what is there is no page of that pid, or not of the folder's user.
  // kUnsupported: a page of another version.
  [[nodiscard]] static Result<PageFile> open(const std::string& folder, uint32_t pid,
                                             Access access = Access::kRead);

  // That of the path, whichever process of this pid has it.
  [[nodiscard]] static Result<PageFile> open_path(const std::string& path, uint32_t pid,
                                                  Access access = Access::kRead);
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const BoardOwner& owner() const { return owner_; }
  [[nodiscard]] const std::string& command() const { return command_; }
  [[nodiscard]] OwnerState owner_state() const;
  [[nodiscard]] struct stat facts() const;  // zeros where the system does not say
  // Whether this process alone holds the page's lock, which who asks and who sweeps holds, until
  // the file is closed. Does not wait.
  [[nodiscard]] bool lock() const;

  // All of it, or false.
  [[nodiscard]] bool read_at(void* to, size_t bytes, size_t offset) const;
  [[nodiscard]] bool write_at(const void* from, size_t bytes, size_t offset) const;

 private:
  PageFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  [[nodiscard]] Result<> read_owner(uint32_t pid);
  std::string path_;
  Descriptor file_;
  BoardOwner owner_;
  std::string command_;
};

}  // namespace vram::record
