// Bytes as a snapshot, packed or not. Whatever they are: no crash, no hang, no more memory than the
// limit; and what was read is consistent: every id within its table, every range within its array.
// Cutting the input must not surprise either, so the third byte says where it is cut again.
#include "base/result.hpp"
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

void check_event(const Trace& trace, const Event& event) {
  const Tables& tables = trace.tables;
  VRAM_CHECK(event.kind >= EventKind::kAlloc && event.kind <= EventKind::kOther);
  VRAM_CHECK(event.stack < tables.stacks.size());
  VRAM_CHECK(event.context < tables.contexts.size());
  VRAM_CHECK(event.stream < tables.streams.size());
  VRAM_CHECK(event.pool == kUnknownPool || event.pool < tables.pools.size());
}

void check_device(const Trace& trace, const DeviceTrace& device) {
  VRAM_CHECK(device.first_event + device.event_count <= trace.events.size());
  for (const Segment& segment : device.segments) {
    VRAM_CHECK(segment.first_block + segment.block_count <= device.blocks.size());
    VRAM_CHECK(segment.stack < trace.tables.stacks.size());
    VRAM_CHECK(segment.stream < trace.tables.streams.size());
  }
  for (const Block& block : device.blocks.span()) {
    VRAM_CHECK(block.stack < trace.tables.stacks.size());
    VRAM_CHECK(block.state <= BlockState::kPendingFree);
    VRAM_CHECK(block.unused[0] == 0);
  }
}

void check_tables(const Tables& tables) {
  for (StackId id = 0; id < tables.stacks.size(); ++id) {
    for (const FrameId frame : tables.stacks[id]) VRAM_CHECK(frame < tables.frames.size());
  }
  for (FrameId id = 0; id < tables.frames.size(); ++id) {
    VRAM_CHECK(tables.frames[id].function < tables.strings.size());
    VRAM_CHECK(tables.frames[id].file < tables.strings.size());
  }
}

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
  uint64_t events = 0;
  for (const DeviceTrace& device : trace->devices) {
    check_device(*trace, device);
    events += device.event_count;
  }
  VRAM_CHECK(events == trace->events.size());
  for (const Event& event : trace->events.span()) check_event(*trace, event);
  for (const Annotation& annotation : trace->annotations) {
    VRAM_CHECK(annotation.name < trace->tables.strings.size());
  }
  check_tables(trace->tables);
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
