#include "trace/import/bytes/packed_input.hpp"

#include "base/bytes.hpp"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>

namespace vram::trace {
namespace {

constexpr int kGzipOnly = 15 + 16;  // zlib's window bits for the gzip wrapper

class GzSource final : public ByteSource {
 public:
  explicit GzSource(PackedInput input) : input_(std::move(input)) {}
  ~GzSource() override {
    if (ready_) inflateEnd(&stream_);
  }
  bool start() { return ready_ = inflateInit2(&stream_, kGzipOnly) == Z_OK; }

  Result<size_t> read(std::span<std::byte> buffer) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = static_cast<uInt>(buffer.size());
    while (stream_.avail_out == buffer.size() && !done_) {
      if (Result<> step = inflate_some(); !step) return tl::unexpected(step.error());
    }
    return buffer.size() - stream_.avail_out;
  }
  [[nodiscard]] bool is_truncated() const override { return is_truncated_; }
  [[nodiscard]] std::string_view compression() const override { return "gz"; }

 private:
  Result<> inflate_some() {
    if (Result<> filled = input_.fill(); !filled) return filled;
    const std::span<const std::byte> pending = input_.pending();
    if (pending.empty()) {
      done_ = true;
      is_truncated_ = !between_members_;
      return {};
    }
    if (between_members_ && pending.front() != std::byte{0x1f}) {
      done_ = true;  // padding after the last member, as tapes and some tools leave it
      return {};
    }
    between_members_ = false;
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(pending.data()));
    stream_.avail_in = static_cast<uInt>(pending.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    input_.consume(pending.size() - stream_.avail_in);
    if (status == Z_STREAM_END) {
      between_members_ = true;
      inflateReset(&stream_);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return fail(Code::kBadInput, "gzip data is damaged near byte {} of the compressed file",
                  input_.offset());
    }
    return {};
  }

  PackedInput input_;
  z_stream stream_ = {};
  bool ready_ = false;
  bool done_ = false;
  bool between_members_ = false;
  bool is_truncated_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> gz_source(PackedInput input) {
  auto source = std::make_unique<GzSource>(std::move(input));
  if (!source->start()) return fail(Code::kIo, "no memory to unpack gzip data");
  return source;
}

namespace {

constexpr uint64_t kMaxDecoderBytes = 256 * kMiB;  // xz -9 needs 65 MiB

class XzSource final : public ByteSource {
 public:
  explicit XzSource(PackedInput input) : input_(std::move(input)) {}
  ~XzSource() override { lzma_end(&stream_); }
  bool start() {
    return lzma_stream_decoder(&stream_, kMaxDecoderBytes, LZMA_CONCATENATED) == LZMA_OK;
  }

  Result<size_t> read(std::span<std::byte> buffer) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(buffer.data());
    stream_.avail_out = buffer.size();
    while (stream_.avail_out == buffer.size() && !done_) {
      if (Result<> step = unpack_some(); !step) return tl::unexpected(step.error());
    }
    return buffer.size() - stream_.avail_out;
  }
  [[nodiscard]] bool is_truncated() const override { return is_truncated_; }
  [[nodiscard]] std::string_view compression() const override { return "xz"; }

 private:
  Result<> unpack_some() {
    if (Result<> filled = input_.fill(); !filled) return filled;
    const std::span<const std::byte> pending = input_.pending();
    stream_.next_in = reinterpret_cast<const uint8_t*>(pending.data());
    stream_.avail_in = pending.size();
    const lzma_ret status = lzma_code(&stream_, pending.empty() ? LZMA_FINISH : LZMA_RUN);
    input_.consume(pending.size() - stream_.avail_in);
    if (status == LZMA_STREAM_END) {
      done_ = true;
    } else if (status == LZMA_BUF_ERROR) {
      done_ = is_truncated_ = pending.empty();
    } else if (status == LZMA_MEMLIMIT_ERROR) {
      return fail(Code::kTooLarge, "unpacking this xz file needs more than {}",
                  format_bytes(kMaxDecoderBytes));
    } else if (status != LZMA_OK) {
      return fail(Code::kBadInput, "xz data is damaged near byte {} of the compressed file",
                  input_.offset());
    }
    return {};
  }

  PackedInput input_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool done_ = false;
  bool is_truncated_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> xz_source(PackedInput input) {
  auto source = std::make_unique<XzSource>(std::move(input));
  if (!source->start()) return fail(Code::kIo, "no memory to unpack xz data");
  return source;
}

namespace {

class ZstdSource final : public ByteSource {
 public:
  explicit ZstdSource(PackedInput input)
      : input_(std::move(input)), stream_(ZSTD_createDStream()) {}
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  [[nodiscard]] bool ready() const { return stream_ != nullptr; }

  Result<size_t> read(std::span<std::byte> buffer) override {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    while (out.pos == 0 && !done_) {
      if (Result<> step = unpack_some(out); !step) return tl::unexpected(step.error());
    }
    return out.pos;
  }
  [[nodiscard]] bool is_truncated() const override { return is_truncated_; }
  [[nodiscard]] std::string_view compression() const override { return "zst"; }

 private:
  Result<> unpack_some(ZSTD_outBuffer& out) {
    if (Result<> filled = input_.fill(); !filled) return filled;
    const std::span<const std::byte> pending = input_.pending();
    ZSTD_inBuffer in = {pending.data(), pending.size(), 0};
    // Called with no input too: the decoder may still hold output.
    const size_t status = ZSTD_decompressStream(stream_, &out, &in);
    if (ZSTD_isError(status) != 0) {
      return fail(Code::kBadInput,
                  "zstd data near byte {} of the compressed file cannot be unpacked: {}",
                  input_.offset(), ZSTD_getErrorName(status));
    }
    input_.consume(in.pos);
    if (!pending.empty()) between_frames_ = status == 0;
    if (pending.empty() && out.pos == 0) {
      done_ = true;
      is_truncated_ = !between_frames_;
    }
    return {};
  }

  PackedInput input_;
  ZSTD_DStream* stream_;
  bool done_ = false;
  bool between_frames_ = false;
  bool is_truncated_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> zstd_source(PackedInput input) {
  auto source = std::make_unique<ZstdSource>(std::move(input));
  if (!source->ready()) return fail(Code::kIo, "no memory to unpack zstd data");
  return source;
}

}  // namespace vram::trace
