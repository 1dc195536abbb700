#include "trace/open.hpp"

#include "base/file.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/import/foreign/foreign.hpp"
#include "trace/import/rows/exported.hpp"
#include "trace/import/torch_snapshot.hpp"
#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/reader.hpp"

#include <array>
#include <utility>

namespace vram::trace {
namespace {

constexpr size_t kMagicBytes = 16;
constexpr std::string_view kStandardInput = "-";

// Gives first what was looked at, then the rest.
class ResumedSource final : public ByteSource {
 public:
  explicit ResumedSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  Result<std::span<const std::byte>> peek() {
    while (head_bytes_ < head_.size()) {
      const Result<size_t> count = source_->read(std::span(head_).subspan(head_bytes_));
      if (!count) return tl::unexpected(count.error());
      if (*count == 0) break;
      head_bytes_ += *count;
    }
    return std::span<const std::byte>(head_).first(head_bytes_);
  }
  Result<size_t> read(std::span<std::byte> buffer) override {
    if (given_ == head_bytes_) return source_->read(buffer);
    const size_t count = std::min(buffer.size(), head_bytes_ - given_);
    std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(given_), count, buffer.begin());
    given_ += count;
    return count;
  }
  [[nodiscard]] bool is_truncated() const override { return source_->is_truncated(); }
  [[nodiscard]] std::string_view compression() const override { return source_->compression(); }
  [[nodiscard]] uint64_t total_bytes() const override { return source_->total_bytes(); }
  [[nodiscard]] uint64_t packed_bytes() const override { return source_->packed_bytes(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::array<std::byte, kMagicBytes> head_ = {};
  size_t head_bytes_ = 0;
  size_t given_ = 0;
};

Result<Trace> read_packed_vtrace(ByteSource& source, const OpenOptions& options) {
  ByteWindow window(source, {options.max_decompressed_bytes, options.progress});
  size_t there = 0;
  do {
    there = static_cast<size_t>(window.end() - window.begin());
    if (!window.refill(window.begin(), there + 1)) return tl::unexpected(*window.error());
  } while (static_cast<size_t>(window.end() - window.begin()) > there);
  return read_vtrace(MemorySource({window.begin(), window.end()}), "", options);
}

// What comes front to back: packed files, and pipes.
Result<Trace> open_stream(InputFile file, const OpenOptions& options) {
  Result<std::unique_ptr<ByteSource>> unpacked = decompressed(file_source(std::move(file)));
  if (!unpacked) return tl::unexpected(unpacked.error());
  ResumedSource source(std::move(*unpacked));
  const Result<std::span<const std::byte>> head = source.peek();
  if (!head) return tl::unexpected(head.error());
  if (is_vtrace({reinterpret_cast<const char*>(head->data()), head->size()}))
    return read_packed_vtrace(source, options);
  if (const auto form = exported_form(*head)) return import_exported(source, *form, options);
  if (const auto form = foreign_form(*head)) return import_foreign(source, *form, options);
  if (Result<> checked = check_snapshot_magic(*head); !checked) {
    return tl::unexpected(checked.error());
  }
  return import_torch_snapshot(source, options);
}

Result<Trace> open_any(const std::string& path, const OpenOptions& options) {
  Result<InputFile> file = InputFile::open(path);
  if (!file) return tl::unexpected(file.error());
  const uint64_t file_bytes = file->size_bytes();
  // A pipe cannot be looked at twice.
  std::array<char, kMagicBytes> magic = {};
  if (file_bytes != 0) {
    const Result<size_t> count = file->read_at(0, std::as_writable_bytes(std::span(magic)));
    if (!count) return tl::unexpected(count.error());
    if (is_vtrace({magic.data(), *count}))
      return read_vtrace(FileSource(std::move(*file)), path, options);
  }
  Result<Trace> trace = open_stream(std::move(*file), options);
  if (!trace && trace.error().code == Code::kIo) return trace;  // names the file itself
  if (!trace) {
    return fail(trace.error().code, "{}: {}", path, trace.error().message);
  }
  trace->origin.path = path;
  trace->origin.file_bytes = file_bytes;
  return trace;
}

}  // namespace

// Limits below should make this impossible short of a machine that has no memory left for anybody.
Result<Trace> open_trace(const std::string& path, const OpenOptions& options) {
  try {
    return open_any(path == kStandardInput ? "/dev/stdin" : path, options);
  } catch (const std::bad_alloc&) {
    return fail(Code::kTooLarge, "{}: reading needs more memory than there is", path);
  }
}

}  // namespace vram::trace
