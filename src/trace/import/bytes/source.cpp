#include "trace/import/bytes/source.hpp"

#include "trace/import/bytes/packed_input.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace vram::trace {

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

}  // namespace vram::trace
