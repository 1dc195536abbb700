// PageFile: the file of a status page (board_page.hpp), treated as untrusted: another program may
// have put a link, a pipe or a short file in its place, and may change it at any time. Uses read
// and write calls and never maps it: if the file shrinks, that is an error and no SIGBUS.
//
//     folder, pid ──▶ PageFile ──▶ board_reader (reads), TrimRequester (asks), sweep (removes)
//
// Use it from one thread at a time.
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
  kDead,  // it left its page behind; perhaps another process has its pid by now
  // Its pid is of another namespace (a container); its state is unknown.
  kOtherNamespace,
};

class PageFile {
 public:
  enum class Access : uint8_t { kRead, kReadAndWrite };
  // Prefers the process of this pid namespace among those with this pid. kNotFound: no page of that
  // pid. kBadInput: not a page of that pid, or not of the folder's user. kUnsupported: a page of
  // another version.
  [[nodiscard]] static Result<PageFile> open(const std::string& folder, uint32_t pid,
                                             Access access = Access::kRead);

  // That of the path, whichever process of this pid has it.
  [[nodiscard]] static Result<PageFile> open_path(const std::string& path, uint32_t pid,
                                                  Access access = Access::kRead);
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const BoardOwner& owner() const { return owner_; }
  [[nodiscard]] const std::string& command() const { return command_; }
  [[nodiscard]] OwnerState owner_state() const;
  [[nodiscard]] struct stat facts() const;  // zeros if unknown
  // Returns whether this process alone holds the page's lock, until the file is closed. Requesters
  // and sweepers need it. Does not wait.
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
