// FileSink: the file of a recording, appended to in pieces: written data survives the process. The
// file gets its name after it is locked, and stays locked while it is written: no process, in any
// container, can replace the file of a living process. A target that is not a regular file (a pipe,
// a device) is written in place. Use it from one thread at a time.
#pragma once

#include "base/file.hpp"
#include "trace/vtrace/writer.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vram::record {

// What to do if the file exists; find_output_target() decides which files are vram's own.
enum class Existing : uint8_t { kKeep, kReplaceOwn, kReplaceAny };

enum class Continuation : uint8_t {
  kNone,
  kFollowed,  // by follow(): create() makes sure that it can be
};

// Renames a file unless the new name is taken: errno is then EEXIST.
[[nodiscard]] bool rename_to_free(const std::string& from, const std::string& to);

class FileSink final : public trace::VtraceSink {
 public:
  // kBadInput: the existing file may not be replaced. kIo: the file cannot be written, or is being
  // written by another process.
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> create(const std::string& path,
                                                                Existing existing,
                                                                Continuation continuation);
  // Continues under the name of `before`, which is renamed to NAME.old.vtrace and replaces an older
  // one. No other process can take the name in between.
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> follow(const FileSink& before);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override;

  // After a failure every later call fails in the same way.
  [[nodiscard]] Result<> write(std::string_view bytes) override;
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  // Appends all that was written here to another file.
  [[nodiscard]] Result<> copy_to(FileSink& to) const;
  // Takes the place of another file in the same folder. kIo: also that the other one is no longer
  // there, but a file that is not ours.
  [[nodiscard]] Result<> replace(const FileSink& other);
  // Removes the file if it is still the one of this name, and a regular one.
  void remove();

  // For the child of a fork, whose parent continues to write.
  static void close_all_in_child();

 private:
  FileSink(std::string path, std::string temporary, Replace replace, int descriptor);
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> create_numbered(const std::string& path,
                                                                         Replace replace);
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> open_in_place(const OutputTarget& target);
  [[nodiscard]] Result<> named(bool is_done);

  std::string path_;       // links followed
  std::string temporary_;  // its name until it has its own
  Replace replace_;
  int descriptor_;
  int failure_ = 0;  // errno
  uint64_t size_bytes_ = 0;
};

}  // namespace vram::record
