// Files, with readable error messages. Output is written to a temporary file in the same folder and
// renamed when it is complete: readers never see an incomplete file, and a failure keeps the
// previous one.
#pragma once

#include "base/output_target.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace vram {

// A file opened for reading, front to back or at an offset. Closed on destruction. One thread at a
// time.
class InputFile {
 public:
  [[nodiscard]] static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  // Reads up to buffer.size() bytes; 0 means the end. Retries interrupted reads.
  [[nodiscard]] Result<size_t> read(std::span<std::byte> buffer);
  [[nodiscard]] Result<size_t> read_at(uint64_t offset, std::span<std::byte> buffer) const;
  // Bytes in the file; unknown (0) for pipes.
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  InputFile(std::string path, int descriptor, uint64_t size_bytes);
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
};

// Reads a whole file that is expected to be small. kTooLarge: it has more than `max_bytes`; it is
// not read further.
[[nodiscard]] Result<std::string> read_whole(const std::string& path, uint64_t max_bytes);

// A file that appears under its name only when commit() succeeds. It inherits the permissions of
// the file that it replaces, and its owner if this process may set it. If the target is not a
// regular file, it is written in place (output_target.hpp).
class AtomicFile {
 public:
  // kBadInput: the existing file may not be replaced; see find_output_target().
  [[nodiscard]] static Result<AtomicFile> create(const std::string& path,
                                                 Replace replace = Replace::kOwn);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // without commit(): the temporary file is removed

  // True: output is visible immediately, and commit() only flushes the rest.
  [[nodiscard]] bool is_in_place() const { return temporary_path_.empty(); }
  [[nodiscard]] Result<> write(std::string_view bytes);
  [[nodiscard]] Result<> commit();

 private:
  AtomicFile(std::string path, Replace replace, std::string temporary_path, Descriptor file)
      : path_(std::move(path)),
        replace_(replace),
        temporary_path_(std::move(temporary_path)),
        file_(std::move(file)) {}
  [[nodiscard]] Result<> flush();
  std::string path_;
  Replace replace_;
  std::string temporary_path_;  // empty: in place
  std::string buffer_;
  Descriptor file_;
};

}  // namespace vram
