// Reading files about and of other processes: never more than a bound, and never led astray. Any
// thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace vram::watch {

struct FileStart {
  std::string text;
  bool is_cut = false;  // the file may be longer
};

// Nothing: it can't be opened or read.
[[nodiscard]] std::optional<FileStart> read_start(const std::string& path, size_t max_bytes);

// Reads a file in another process's file system, by its path there. The owner of that file system
// may have placed links and pipes in it: links are followed as that process would follow them, so
// none leads to a file of the host, and anything but a regular file is ignored. Needs Linux 5.6.
[[nodiscard]] std::optional<FileStart> read_inside(const std::string& root_folder,
                                                   const std::string& path, size_t max_bytes);

}  // namespace vram::watch
