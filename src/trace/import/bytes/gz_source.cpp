#include "trace/import/bytes/packed_input.hpp"

#include <zlib.h>

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

}  // namespace vram::trace
