// The source of a .vtrace file's bytes: a file, or memory. Readable at any offset; use it from one
// thread at a time.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace vram::trace {

class VtraceSource {
 public:
  virtual ~VtraceSource() = default;
  [[nodiscard]] virtual uint64_t size_bytes() const = 0;
  // Returns fewer bytes than requested only at the end.
  [[nodiscard]] virtual Result<size_t> read_at(uint64_t offset,
                                               std::span<uint8_t> buffer) const = 0;
};

class FileSource final : public VtraceSource {
 public:
  explicit FileSource(InputFile file) : file_(std::move(file)) {}
  [[nodiscard]] uint64_t size_bytes() const override { return file_.size_bytes(); }
  [[nodiscard]] Result<size_t> read_at(uint64_t offset, std::span<uint8_t> buffer) const override {
    return file_.read_at(offset, std::as_writable_bytes(buffer));
  }

 private:
  InputFile file_;
};

class MemorySource final : public VtraceSource {
 public:
  explicit MemorySource(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] uint64_t size_bytes() const override { return bytes_.size(); }
  [[nodiscard]] Result<size_t> read_at(uint64_t offset, std::span<uint8_t> buffer) const override {
    const size_t start = std::min<uint64_t>(offset, bytes_.size());
    const size_t count = std::min(buffer.size(), bytes_.size() - start);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(start), count, buffer.begin());
    return count;
  }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace vram::trace
