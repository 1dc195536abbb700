// Files: all file access of drm/. A missing, unreadable, huge or truncated file is an unknown
// figure, never an error; reads are bounded. Counts opened files, so that tests can check the cost
// of a tick, and that a sleeping device is not read.
//
// Use it from one thread at a time. Never blocks: a file that would block (a pipe in a test's tree)
// is empty.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::gpu::drm {

// Where the kernel's files are; tests have their own trees.
struct Roots {
  std::string sys = "/sys";
  std::string proc = "/proc";
};

struct Link {
  uint32_t name = 0;
  std::string target;
};

class Files {
 public:
  static constexpr size_t kMaxBytes = size_t{16} << 10;  // of one file
  static constexpr size_t kMaxEntries = size_t{1} << 16;
  static constexpr size_t kMaxLinks = 4096;

  // Returns the complete lines at the file's beginning: the kernel ends each line with a newline,
  // so a truncated number is not read. Empty if there is nothing to read. Valid until the next
  // call.
  [[nodiscard]] std::string_view read(const std::string& path);
  // Returns a whole file, which may be empty; nothing if it cannot be read completely.
  [[nodiscard]] std::optional<std::string_view> read_whole(const std::string& path);
  // The names in a folder, sorted; those that are numbers of 32 bits.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& folder);
  [[nodiscard]] std::vector<uint32_t> numbers_in(const std::string& folder);
  // The symbolic links in a folder whose names are such numbers.
  [[nodiscard]] std::vector<Link> links_in(const std::string& folder);

  // Opens nothing.
  [[nodiscard]] static bool exists(const std::string& path);
  // The size from stat; 0: unknown. Opens nothing.
  [[nodiscard]] static uint64_t size_of(const std::string& path);

  // Files and folders, tried ones too; and links followed.
  [[nodiscard]] uint64_t opened() const { return opened_; }
  [[nodiscard]] uint64_t links_read() const { return links_read_; }

 private:
  struct Read {
    std::string_view text;
    bool is_complete = false;
  };
  [[nodiscard]] Read read_some(const std::string& path);

  std::array<char, kMaxBytes> buffer_{};
  uint64_t opened_ = 0;
  uint64_t links_read_ = 0;
};

}  // namespace vram::gpu::drm
