#include "trace/import/bytes/source.hpp"

#include "base/bytes.hpp"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

namespace vram::trace {

constexpr size_t kBufferBytes = size_t{64} << 10;

// The compressed side of a decompressing source: a buffer of not yet unpacked bytes.
class PackedInput {
 public:
  explicit PackedInput(std::unique_ptr<ByteSource> source);

  // Makes pending() non-empty unless the source has ended.
  [[nodiscard]] Result<> fill();
  [[nodiscard]] std::span<const std::byte> pending() const {
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  void consume(size_t bytes) { begin_ += bytes; }
  [[nodiscard]] bool ended() const { return ended_ && begin_ == end_; }
  // Compressed bytes consumed so far: where damaged data is reported.
  [[nodiscard]] uint64_t offset() const { return read_bytes_ - (end_ - begin_); }
  [[nodiscard]] ByteSource& source() { return *source_; }

 private:
  std::unique_ptr<ByteSource> source_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t read_bytes_ = 0;
  bool ended_ = false;
};

[[nodiscard]] Result<std::unique_ptr<ByteSource>> gz_source(PackedInput input);
[[nodiscard]] Result<std::unique_ptr<ByteSource>> zstd_source(PackedInput input);
[[nodiscard]] Result<std::unique_ptr<ByteSource>> xz_source(PackedInput input);

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
  [[nodiscard]] uint64_t packed_bytes() const override { return input_.offset(); }

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

PackedInput::PackedInput(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)), buffer_(kBufferBytes) {}

Result<> PackedInput::fill() {
  if (begin_ != end_ || ended_) return {};
  const Result<size_t> count = source_->read(buffer_);
  if (!count) return tl::unexpected(count.error());
  begin_ = 0;
  end_ = *count;
  read_bytes_ += *count;
  ended_ = *count == 0;
  return {};
}

namespace {

class FileSource final : public ByteSource {
 public:
  explicit FileSource(InputFile file) : file_(std::move(file)) {}
  Result<size_t> read(std::span<std::byte> buffer) override { return file_.read(buffer); }
  [[nodiscard]] uint64_t total_bytes() const override { return file_.size_bytes(); }

 private:
  InputFile file_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : rest_(bytes), total_(bytes.size()) {}
  Result<size_t> read(std::span<std::byte> buffer) override {
    const size_t count = std::min(buffer.size(), rest_.size());
    if (count != 0) std::memcpy(buffer.data(), rest_.data(), count);
    rest_ = rest_.subspan(count);
    return count;
  }
  [[nodiscard]] uint64_t total_bytes() const override { return total_; }

 private:
  std::span<const std::byte> rest_;
  uint64_t total_;
};

// Not compressed: what the look at the first bytes took in, then the source itself.
class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(PackedInput input) : input_(std::move(input)) {}
  Result<size_t> read(std::span<std::byte> buffer) override {
    const std::span<const std::byte> pending = input_.pending();
    if (pending.empty()) return input_.source().read(buffer);
    const size_t count = std::min(buffer.size(), pending.size());
    if (count != 0) std::memcpy(buffer.data(), pending.data(), count);
    input_.consume(count);
    return count;
  }
  [[nodiscard]] uint64_t total_bytes() const override { return total_bytes_; }
  void set_total(uint64_t bytes) { total_bytes_ = bytes; }

 private:
  PackedInput input_;
  uint64_t total_bytes_ = 0;
};

bool starts_with(std::span<const std::byte> bytes, std::span<const uint8_t> magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

constexpr std::array<uint8_t, 2> kGzMagic = {0x1f, 0x8b};
constexpr std::array<uint8_t, 4> kZstdMagic = {0x28, 0xb5, 0x2f, 0xfd};
constexpr std::array<uint8_t, 6> kXzMagic = {0xfd, '7', 'z', 'X', 'Z', 0x00};

}  // namespace

std::unique_ptr<ByteSource> file_source(InputFile file) {
  return std::make_unique<FileSource>(std::move(file));
}

std::unique_ptr<ByteSource> memory_source(std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

Result<std::unique_ptr<ByteSource>> decompressed(std::unique_ptr<ByteSource> packed) {
  const uint64_t total = packed->total_bytes();
  PackedInput input(std::move(packed));
  if (Result<> filled = input.fill(); !filled) return tl::unexpected(filled.error());
  const std::span<const std::byte> head = input.pending();
  if (starts_with(head, kGzMagic)) return gz_source(std::move(input));
  if (starts_with(head, kZstdMagic)) return zstd_source(std::move(input));
  if (starts_with(head, kXzMagic)) return xz_source(std::move(input));
  auto plain = std::make_unique<PlainSource>(std::move(input));
  plain->set_total(total);
  return plain;
}

namespace {
constexpr size_t kWindowBytes = size_t{128} << 10;
}

ByteWindow::ByteWindow(ByteSource& source, WindowOptions options)
    : source_(source), options_(std::move(options)) {
  buffer_.resize(kWindowBytes + kPadding);
}

bool ByteWindow::refill(const uint8_t* keep, size_t wanted) {
  const size_t kept_at = static_cast<size_t>(keep - buffer_.data());
  const size_t kept = end_ - kept_at;
  std::memmove(buffer_.data(), keep, kept);
  base_offset_ += kept_at;
  begin_ = 0;
  end_ = kept;
  while (end_ - begin_ < wanted && !ended_) {
    // Grows with what has really arrived, never by what a length field claims.
    if (end_ + kPadding >= buffer_.size()) buffer_.resize(buffer_.size() * 2);
    if (!read_more()) return false;
  }
  if (options_.progress) options_.progress(base_offset_ + end_, source_.total_bytes());
  return true;
}

bool ByteWindow::read_more() {
  const size_t room = buffer_.size() - kPadding - end_;
  const Result<size_t> count =
      source_.read({reinterpret_cast<std::byte*>(buffer_.data() + end_), room});
  if (!count) {
    error_ = count.error();
    return false;
  }
  end_ += *count;
  ended_ = *count == 0;
  if (base_offset_ + end_ > options_.max_bytes) {
    error_ = Error{Code::kTooLarge,
                   trf("the file unpacks to more than {}, the limit against bombs: to read it, set "
                       "a larger one (--max-size, in Python max_size=)",
                       format_bytes(options_.max_bytes))};
    return false;
  }
  if (is_bomb()) {
    error_ = Error{Code::kTooLarge,
                   trf("the file unpacks to more than {} times its size, as no recording does: to "
                       "read it nevertheless, unpack it first",
                       format_count(kMinBombFactor))};
    return false;
  }
  return true;
}

bool ByteWindow::is_bomb() const {
  const uint64_t unpacked = base_offset_ + end_;
  const uint64_t packed = source_.packed_bytes();
  return packed != 0 && unpacked > options_.min_bomb_bytes && unpacked / kMinBombFactor > packed;
}

uint64_t ByteWindow::skip(const uint8_t* keep, uint64_t count) {
  uint64_t skipped = 0;
  const uint8_t* at = keep;
  while (true) {
    const uint64_t step = std::min<uint64_t>(count - skipped, static_cast<uint64_t>(end() - at));
    skipped += step;
    at += step;
    if (skipped == count) break;
    const bool more = refill(at, 1);
    at = begin();
    if (!more || at == end()) break;
  }
  begin_ = static_cast<size_t>(at - buffer_.data());
  return skipped;
}

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
  [[nodiscard]] uint64_t packed_bytes() const override { return input_.offset(); }

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
  [[nodiscard]] uint64_t packed_bytes() const override { return input_.offset(); }

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
