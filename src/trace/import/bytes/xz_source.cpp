#include "base/bytes.hpp"
#include "trace/import/bytes/packed_input.hpp"

#include <lzma.h>

namespace vram::trace {
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

}  // namespace vram::trace
