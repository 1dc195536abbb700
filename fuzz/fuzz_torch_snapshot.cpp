// Bytes as a snapshot, packed or not. Whatever they are: no crash, no hang, no more memory than the
// limit; and what was read is consistent: every id within its table, every range within its array.
// Cutting the input must not surprise either, so the third byte says where it is cut again.
#include "base/result.hpp"
#include "check_trace.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/import/torch_snapshot.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace vram::trace {
namespace {

constexpr uint64_t kMaxUnpacked = uint64_t{32} << 20;
constexpr uint64_t kMaxMemory = uint64_t{64} << 20;

void try_bytes(std::span<const std::byte> bytes) {
  Result<std::unique_ptr<ByteSource>> source = decompressed(memory_source(bytes));
  if (!source) return;
  const Result<Trace> trace =
      import_torch_snapshot(**source, {.max_decompressed_bytes = kMaxUnpacked, .progress = nullptr},
                            {.max_memory_bytes = kMaxMemory});
  if (!trace) {
    VRAM_CHECK(!trace.error().message.empty());
    return;
  }
  check_trace(*trace);
}

}  // namespace
}  // namespace vram::trace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  vram::trace::try_bytes(bytes);
  static_cast<void>(vram::trace::check_snapshot_magic(bytes.first(std::min<size_t>(size, 16))));
  if (size > 3) vram::trace::try_bytes(bytes.first(size * std::to_integer<size_t>(bytes[2]) / 256));
  return 0;
}
