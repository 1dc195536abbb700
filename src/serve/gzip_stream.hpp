// A gzip member, compressed in independent pieces: a connection that waits for its client keeps
// twelve bytes instead of deflate's window and tables (256 KiB). The output is a few percent
// larger.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace vram::serve {

// deflate's working memory, allocated when it is first used. One thread at a time.
class Deflater {
 public:
  Deflater();
  ~Deflater();
  // A part of a raw deflate stream; the last one ends it. Throws std::bad_alloc.
  [[nodiscard]] std::string pack(std::string_view text, bool is_last);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

// One thread at a time.
class GzipStream {
 public:
  [[nodiscard]] std::string pack(std::string_view text, bool is_last, Deflater& deflater);

 private:
  uint32_t checksum_ = 0;
  uint32_t size_ = 0;  // modulo 2^32, as the format requires
  bool has_begun_ = false;
};

}  // namespace vram::serve
