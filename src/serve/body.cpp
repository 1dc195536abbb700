#include "serve/body.hpp"

#define ZLIB_CONST
#include <zlib.h>

namespace vram::serve {
namespace {

constexpr size_t kTinyBytes = 1024;  // one packet, packed or not
constexpr int kLevel = 3;            // higher ones gain a few percent and take twice the time
constexpr int kGzipWindow = 15 + 16;
constexpr int kMemoryLevel = 8;

}  // namespace

std::string gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    return "";
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool is_whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(is_whole ? stream.total_out : 0);
  (void)deflateEnd(&stream);
  return packed;
}

const std::string& Body::gzipped() const {
  std::call_once(once_, [this] {
    if (text_.size() >= kTinyBytes) {
      std::string packed = gzip(text_);
      packed.shrink_to_fit();
      if (packed.size() < text_.size()) gzipped_ = std::move(packed);
    }
    is_packed_ = true;
  });
  return gzipped_;
}

}  // namespace vram::serve
