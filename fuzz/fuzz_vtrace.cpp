// Bytes as a .vtrace file. Whatever they are: no crash, no more memory than the limit, and what was
// read is consistent enough to be written and read again with the same content. Payloads made by a
// fuzzer rarely survive zstd's checksum, so the same bytes are also taken as the content of each
// kind of frame.
#include "base/result.hpp"
#include "trace/testing/memory_sink.hpp"
#include "trace/vtrace/events.hpp"
#include "trace/vtrace/meta.hpp"
#include "trace/vtrace/state.hpp"
#include "trace/vtrace/tables.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vram::trace {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

void try_file(std::span<const uint8_t> bytes) {
  const auto trace = read_bytes(bytes, {.max_decompressed_bytes = kMaxBytes, .progress = nullptr});
  if (trace) {
    MemorySink sink;
    VRAM_CHECK(write_vtrace(*trace, sink));
    const auto again = read_bytes(sink.bytes());
    VRAM_CHECK(again && again->events.size() == trace->events.size());
    for (size_t i = 0; i < trace->events.size(); ++i)
      VRAM_CHECK(again->events[i] == trace->events[i]);
  }
}

void try_contents(std::span<const uint8_t> bytes) {
  Tables tables;
  (void)decode_tables(bytes, tables);
  Trace trace;
  std::vector<VtraceDevice> devices;
  (void)decode_meta(bytes, trace, devices);
  DecodedState state;
  (void)decode_state(bytes, sizes_of(tables), state);
  (void)decode_annotations(bytes, sizes_of(tables), trace.annotations);
  (void)decode_figures(bytes, sizes_of(tables), trace.figures);
  (void)decode_marks(bytes, sizes_of(tables), trace.marks);
}

// The first two bytes say how many events are claimed.
void try_events(std::span<const uint8_t> bytes) {
  if (bytes.size() < 2) return;
  FrameHeader header;
  header.type = FrameType::kEvents;
  header.item_count = bytes[0] + (uint32_t{bytes[1]} << 8);
  const TableSizes limits{
      .strings = 9, .frames = 9, .stacks = 9, .contexts = 9, .streams = 9, .pools = 9};
  PodVector<Event> events;
  if (!EventDecoder().decode(header, bytes.subspan(2), limits, events)) {
    VRAM_CHECK(events.empty());
    return;
  }
  VRAM_CHECK(events.size() == header.item_count);
  for (const Event& event : std::span(events.begin(), events.end())) {
    VRAM_CHECK(event.stack < 9 && event.context < 9 && event.stream < 9);
    VRAM_CHECK(event.pool < 9 || event.pool == kUnknownPool);
    VRAM_CHECK(event.kind >= EventKind::kAlloc && event.kind <= EventKind::kOther);
  }
}

}  // namespace
}  // namespace vram::trace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  vram::trace::try_file(bytes);
  vram::trace::try_contents(bytes);
  vram::trace::try_events(bytes);
  return 0;
}
