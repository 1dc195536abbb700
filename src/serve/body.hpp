// The bodies of responses, compressed: a text that many responses share, and a stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

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

// A gzip member, compressed in independent pieces: a connection that waits for its client keeps
// twelve bytes instead of deflate's window and tables (256 KiB). The output is a few percent
// larger. One thread at a time.
class GzipStream {
 public:
  [[nodiscard]] std::string pack(std::string_view text, bool is_last, Deflater& deflater);

 private:
  uint32_t checksum_ = 0;
  uint32_t size_ = 0;  // modulo 2^32, as the format requires
  bool has_begun_ = false;
};

// A text that many responses share: a thousand scrapes of one sample send the same bytes,
// compressed at most once. May be used from any thread.
class Body {
 public:
  explicit Body(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] const std::string& text() const { return text_; }
  // Returns a gzip member; empty if compression does not pay.
  [[nodiscard]] const std::string& gzipped() const;
  // Returns whether gzipped() returns immediately.
  [[nodiscard]] bool is_packed() const { return is_packed_; }
  // Size of both forms, as far as they exist.
  [[nodiscard]] size_t size_bytes() const {
    return text_.size() + (is_packed_ ? gzipped_.size() : 0);
  }

 private:
  std::string text_;
  mutable std::once_flag once_;
  mutable std::string gzipped_;
  mutable std::atomic<bool> is_packed_ = false;
};

// One gzip member; empty if zlib has no memory for it.
[[nodiscard]] std::string gzip(std::string_view text);

// A document of the last sample, made at its first use; all later requests get the same bytes until
// the next edition (the sample number or greater; never 0). For the server's thread only.

class DocumentCache {
 public:
  template <typename Make>
  [[nodiscard]] std::shared_ptr<const Body> get(uint64_t edition, Make make) {
    if (edition != edition_) {
      body_ = std::make_shared<Body>(make());
      edition_ = edition;
    }
    return body_;
  }

 private:
  uint64_t edition_ = 0;
  std::shared_ptr<const Body> body_;
};

}  // namespace vram::serve
