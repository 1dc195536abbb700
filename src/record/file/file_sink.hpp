// FileSink: a recording's file, appended to piece by piece: what was written survives the process.
// A file of that name that was there before is replaced. One thread at a time.
#pragma once

#include "trace/vtrace/writer.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vram::record {

class FileSink final : public trace::VtraceSink {
 public:
  // must_be_new: kBadInput where the file exists.
  [[nodiscard]] static Result<std::unique_ptr<FileSink>> create(const std::string& path,
                                                                bool must_be_new);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override;

  // After a failure every later call fails in the same way.
  [[nodiscard]] Result<> write(std::string_view bytes) override;
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }

 private:
  FileSink(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;
  int failure_ = 0;  // errno
  uint64_t size_bytes_ = 0;
};

}  // namespace vram::record
