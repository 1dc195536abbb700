#include "serve/body.hpp"

#include "base/result.hpp"

#include <new>

#define ZLIB_CONST
#include <zlib.h>

namespace vram::serve {
namespace {

constexpr size_t kTinyBytes = 1024;  // one packet, packed or not
constexpr int kLevel = 3;            // higher ones gain a few percent and take twice the time
constexpr int kGzipWindow = 15 + 16;
constexpr int kRawWindow = -15;  // no header: GzipStream writes it
constexpr int kMemoryLevel = 8;
constexpr size_t kFlushBytes = 64;  // deflateBound() knows of no flush

// No name, no time, from Unix.
constexpr std::string_view kHeader("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);

void append_little_endian(std::string& text, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(number >> shift & 0xffU);
}

}  // namespace

struct Deflater::Stream {
  z_stream state{};

  Stream() {
    if (deflateInit2(&state, kLevel, Z_DEFLATED, kRawWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
        Z_OK)
      throw std::bad_alloc();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)deflateEnd(&state); }
};

Deflater::Deflater() = default;
Deflater::~Deflater() = default;

std::string Deflater::pack(std::string_view text, bool is_last) {
  if (!stream_) stream_ = std::make_unique<Stream>();
  z_stream& stream = stream_->state;
  (void)deflateReset(&stream);
  std::string packed(deflateBound(&stream, text.size()) + kFlushBytes, '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int done = deflate(&stream, is_last ? Z_FINISH : Z_SYNC_FLUSH);
  VRAM_CHECK(done == (is_last ? Z_STREAM_END : Z_OK) && stream.avail_in == 0);
  packed.resize(stream.total_out);
  packed.shrink_to_fit();
  return packed;
}

std::string GzipStream::pack(std::string_view text, bool is_last, Deflater& deflater) {
  std::string packed;
  if (!has_begun_) packed = kHeader;
  has_begun_ = true;
  checksum_ = static_cast<uint32_t>(crc32(checksum_, reinterpret_cast<const Bytef*>(text.data()),
                                          static_cast<uInt>(text.size())));
  size_ += static_cast<uint32_t>(text.size());
  packed += deflater.pack(text, is_last);
  if (is_last) {
    append_little_endian(packed, checksum_);
    append_little_endian(packed, size_);
  }
  return packed;
}

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
