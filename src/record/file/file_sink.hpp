// FileSink: a recording's file, appended to piece by piece: what was written survives the process.
// It gets its name once it is locked, and is locked as long as it is written: a file whose process
// lives is replaced by nobody, in whichever container either of them runs. What is no regular file
// (a pipe, a device) is written in place. One thread at a time.
#pragma once

#include "base/output_target.hpp"
#include "trace/vtrace/writer.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vram::record {

// What to do with a file of that name: find_output_target() says which one is its own.
enum class Existing : uint8_t { kKeep, kReplaceOwn, kReplaceAny };

enum class Continuation : uint8_t {
  kNone,
  kFollowed,  // by follow(): create() makes sure that it can be
};

class FileSink final : public trace::VtraceSink {
 public:
  // kBadInput: the name is taken by a file that stays. kIo: it can't be written, or somebody else
  // is writing it.
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> create(const std::string& path,
                                                                Existing existing,
                                                                Continuation continuation);
  // The next one under the name of `before`, which is kept as NAME.old.vtrace, in place of what is
  // there. Nobody else can take the name in between.
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> follow(const FileSink& before);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override;

  // After a failure every later call fails in the same way.
  [[nodiscard]] Result<> write(std::string_view bytes) override;
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }

  // In the child of a fork, whose parent goes on writing.
  static void close_all_in_child();

 private:
  FileSink(std::string path, std::string temporary, Replace replace, int descriptor);
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> create_numbered(const std::string& path,
                                                                         Replace replace);
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> open_in_place(const OutputTarget& target);
  [[nodiscard]] bool take_name();
  [[nodiscard]] Result<> named(bool is_done);

  std::string path_;       // links followed
  std::string temporary_;  // its name until it has its own
  Replace replace_;
  int descriptor_;
  int failure_ = 0;  // errno
  uint64_t size_bytes_ = 0;
};

}  // namespace vram::record
