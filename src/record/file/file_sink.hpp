// FileSink: a recording's file, appended to piece by piece: what was written survives the process.
// It gets its name once it is locked, and is locked as long as it is written: a file whose process
// lives is replaced by nobody, in whichever container either of them runs. One thread at a time.
#pragma once

#include "trace/vtrace/writer.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vram::record {

// What to do with a file of that name.
enum class Existing : uint8_t { kKeep, kReplaceUnlessLive };

class FileSink final : public trace::VtraceSink {
 public:
  // kBadInput: the name is taken by a file that stays. kIo: what is there is no file, or it can't
  // be written.
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> create(const std::string& path,
                                                                Existing existing);
  // The next one under the name of `before`, which is kept as old_path, in place of what is there.
  // Nobody else can take the name in between.
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> follow(const FileSink& before,
                                                                const std::string& old_path);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override;

  // After a failure every later call fails in the same way.
  [[nodiscard]] Result<> write(std::string_view bytes) override;
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }

  // Whether some process is writing the file. False where it can't be told.
  [[nodiscard]] static bool is_live(const std::string& path);
  // In the child of a fork, whose parent goes on writing.
  static void close_all_in_child();

 private:
  FileSink(std::string path, std::string temporary, int descriptor);
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> create_beside(const std::string& path);
  [[nodiscard]] bool take_name();
  [[nodiscard]] bool replace_unless_live();
  [[nodiscard]] Result<> named(bool is_done);

  std::string path_;
  std::string temporary_;  // its name until it has its own
  int descriptor_;
  int failure_ = 0;  // errno
  uint64_t size_bytes_ = 0;
};

}  // namespace vram::record
