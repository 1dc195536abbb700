// A .vtrace file in memory, for tests.
#pragma once

#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/reader.hpp"
#include "trace/vtrace/writer.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vram::trace {

using FileBytes = std::vector<uint8_t>;

class MemorySink final : public VtraceSink {
 public:
  [[nodiscard]] Result<> write(std::string_view bytes) override {
    starts_.push_back(bytes_.size());
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  [[nodiscard]] const FileBytes& bytes() const { return bytes_; }
  // Where each write began: the header, then the frames, then the trailer.
  [[nodiscard]] const std::vector<size_t>& starts() const { return starts_; }

 private:
  FileBytes bytes_;
  std::vector<size_t> starts_;
};

[[nodiscard]] inline Result<Trace> read_bytes(std::span<const uint8_t> bytes,
                                              const OpenOptions& options = {}) {
  return read_vtrace(MemorySource(bytes), "test.vtrace", options);
}

}  // namespace vram::trace
