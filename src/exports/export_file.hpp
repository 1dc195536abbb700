// ExportFile: an AtomicFile that is filled by appending to a text, and that keeps its first error
// until commit(). Internal to exports/; one thread at a time.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace vram::exports {

class ExportFile {
 public:
  [[nodiscard]] static Result<ExportFile> create(const std::string& path, Replace replace) {
    return AtomicFile::create(path, replace).map([](AtomicFile&& file) {
      return ExportFile(std::move(file));
    });
  }

  // What is appended here is written; call flush_if_large() now and then.
  [[nodiscard]] std::string& text() { return text_; }
  void flush_if_large() {
    constexpr size_t kLarge = size_t{256} << 10;
    if (text_.size() >= kLarge) flush();
  }
  // What was flushed and what is still in text().
  [[nodiscard]] uint64_t bytes_so_far() const { return flushed_ + text_.size(); }
  [[nodiscard]] Result<> commit() {
    flush();
    if (!written_) return written_;
    return file_.commit();
  }

 private:
  explicit ExportFile(AtomicFile file) : file_(std::move(file)) {}
  void flush() {
    if (written_) written_ = file_.write(text_);
    flushed_ += text_.size();
    text_.clear();
  }

  AtomicFile file_;
  std::string text_;
  uint64_t flushed_ = 0;
  Result<> written_;
};

}  // namespace vram::exports
