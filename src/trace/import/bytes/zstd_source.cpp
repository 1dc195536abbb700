#include "trace/import/bytes/packed_input.hpp"

#include <zstd.h>

namespace vram::trace {
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
