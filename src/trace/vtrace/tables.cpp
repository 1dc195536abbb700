#include "trace/vtrace/tables.hpp"

#include "base/result.hpp"
#include "base/varint.hpp"
#include "trace/vtrace/frames.hpp"

#include <string_view>

namespace vram::trace {
namespace {

// A frame is closed once its content passes this; one entry more may follow, and still fits
// kMaxContentBytes.
constexpr size_t kFullBytes = 2 * 1024 * 1024;
constexpr size_t kMaxStackFrames = 1024 * 1024;

using Bytes = PodVector<uint8_t>;

Result<> put_string(Bytes& out, std::string_view text) {
  if (text.size() > kMaxTextBytes)
    return fail(Code::kTooLarge, "a text of {} bytes; a .vtrace file holds texts up to {}",
                text.size(), kMaxTextBytes);
  put_varint(out, text.size());
  out.append(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return {};
}

Result<> put_stack(Bytes& out, std::span<const FrameId> frames) {
  if (frames.size() > kMaxStackFrames)
    return fail(Code::kTooLarge, "a stack of {} frames; a .vtrace file holds stacks up to {}",
                frames.size(), kMaxStackFrames);
  put_varint(out, frames.size());
  for (const FrameId frame : frames) put_varint(out, frame);
  return {};
}

void put_frame(Bytes& out, const Frame& frame) {
  put_varint(out, frame.function);
  put_varint(out, frame.file);
  put_varint(out, frame.line);
  put_varint(out, frame.fx_node);
  put_varint(out, frame.fx_trace);
}

void put_context(Bytes& out, const Context& context) {
  put_varint(out, context.compile_id);
  put_varint(out, context.user_metadata);
  put_varint(out, context.category);
  put_varint(out, context.forward_stack);
}

void put_pool(Bytes& out, PoolName name) {
  put_varint(out, name.first);
  put_varint(out, name.second);
}

// One table's part: first id, count, entries. The count comes to stand before entries that are not
// yet chosen, so they are made aside.
template <typename Put>
Result<> put_section(Bytes& out, Bytes& scratch, uint64_t size, uint64_t& written, Put&& put) {
  scratch.truncate(0);
  const uint64_t first = written;
  for (; written < size && out.size() + scratch.size() < kFullBytes; ++written)
    if (auto done = put(scratch, written); !done) return done;
  put_varint(out, first);
  put_varint(out, written - first);
  out.append(scratch.data(), scratch.size());
  return {};
}

// `add(id, reader)` interns one entry and says the id it got, or an impossible one for content that
// cannot be.
template <typename Add>
Result<> read_section(VarintReader& reader, std::string_view what, uint64_t size, Add&& add) {
  const uint64_t first = reader.get();
  const uint64_t count = reader.get_count();
  if (reader.failed() || (count != 0 && first != size))
    return fail(Code::kBadInput, "expected {} {} next, found {}", what, size, first);
  for (uint64_t id = first; id < first + count; ++id) {
    const uint64_t got = add(reader);
    if (reader.failed())
      return fail(Code::kBadInput, "{} {} is truncated or refers to nothing", what, id);
    if (got != id) return fail(Code::kBadInput, "{} {} repeats {}", what, id, got);
  }
  return {};
}

uint32_t get_id(VarintReader& reader, uint64_t size) {
  const uint64_t id = reader.get();
  if (id >= size) reader.fail();
  return static_cast<uint32_t>(id);
}

Frame get_frame(VarintReader& reader, uint64_t strings) {
  Frame frame;
  frame.function = get_id(reader, strings);
  frame.file = get_id(reader, strings);
  frame.line = get_id(reader, uint64_t{1} << 32);
  frame.fx_node = get_id(reader, strings);
  frame.fx_trace = get_id(reader, strings);
  return frame;
}

Context get_context(VarintReader& reader, const Tables& tables) {
  Context context;
  context.compile_id = get_id(reader, tables.strings.size());
  context.user_metadata = get_id(reader, tables.strings.size());
  context.category = get_id(reader, tables.strings.size());
  context.forward_stack = get_id(reader, tables.stacks.size());
  return context;
}

// An entry that failed to read is not interned.
constexpr uint64_t kNoId = ~uint64_t{0};

template <typename Intern>
uint64_t intern_if_read(const VarintReader& reader, Intern&& intern) {
  return reader.failed() ? kNoId : uint64_t{intern()};
}

Result<> read_strings_and_frames(VarintReader& reader, Tables& tables) {
  auto done = read_section(reader, "string", tables.strings.size(), [&](VarintReader& from) {
    const std::string_view text = get_text(from);
    return intern_if_read(from, [&] { return tables.strings.intern(text); });
  });
  if (!done) return done;
  return read_section(reader, "frame", tables.frames.size(), [&](VarintReader& from) {
    const Frame frame = get_frame(from, tables.strings.size());
    return intern_if_read(from, [&] { return tables.frames.intern(frame); });
  });
}

Result<> read_stacks_and_contexts(VarintReader& reader, Tables& tables) {
  PodVector<FrameId> frames;
  auto done = read_section(reader, "stack", tables.stacks.size(), [&](VarintReader& from) {
    frames.truncate(0);
    const uint64_t count = from.get_count();
    for (uint64_t i = 0; i < count && !from.failed(); ++i)
      frames.push_back(get_id(from, tables.frames.size()));
    return intern_if_read(from, [&] { return tables.stacks.intern(frames.span()); });
  });
  if (!done) return done;
  return read_section(reader, "context", tables.contexts.size(), [&](VarintReader& from) {
    const Context context = get_context(from, tables);
    return intern_if_read(from, [&] { return tables.contexts.intern(context); });
  });
}

Result<> read_streams_and_pools(VarintReader& reader, Tables& tables) {
  auto done = read_section(reader, "stream", tables.streams.size(), [&](VarintReader& from) {
    const uint64_t handle = from.get();
    return intern_if_read(from, [&] { return tables.streams.intern(handle); });
  });
  if (!done) return done;
  return read_section(reader, "pool", tables.pools.size(), [&](VarintReader& from) {
    const uint64_t first = from.get();
    const uint64_t second = from.get();
    return intern_if_read(from, [&] { return tables.pools.intern({first, second}); });
  });
}

bool all_written(const TableSizes& have, const TableSizes& written) {
  return have.strings == written.strings && have.frames == written.frames &&
         have.stacks == written.stacks && have.contexts == written.contexts &&
         have.streams == written.streams && have.pools == written.pools;
}

}  // namespace

TableSizes sizes_of(const Tables& tables) {
  return {.strings = tables.strings.size(),
          .frames = tables.frames.size(),
          .stacks = tables.stacks.size(),
          .contexts = tables.contexts.size(),
          .streams = tables.streams.size(),
          .pools = tables.pools.size()};
}

Result<> encode_tables(const Tables& tables, TableSizes& written, Bytes& content) {
  content.truncate(0);
  const TableSizes have = sizes_of(tables);
  if (all_written(have, written)) return {};
  Bytes scratch;
  const auto id = [](uint64_t at) { return static_cast<uint32_t>(at); };
  Result<> done =
      put_section(content, scratch, have.strings, written.strings,
                  [&](Bytes& out, uint64_t at) { return put_string(out, tables.strings[id(at)]); });
  const auto put_next = [&](uint64_t size, uint64_t& from, auto&& put) {
    if (done) done = put_section(content, scratch, size, from, put);
  };
  put_next(have.frames, written.frames, [&](Bytes& out, uint64_t at) -> Result<> {
    put_frame(out, tables.frames[id(at)]);
    return {};
  });
  put_next(have.stacks, written.stacks,
           [&](Bytes& out, uint64_t at) { return put_stack(out, tables.stacks[id(at)]); });
  put_next(have.contexts, written.contexts, [&](Bytes& out, uint64_t at) -> Result<> {
    put_context(out, tables.contexts[id(at)]);
    return {};
  });
  put_next(have.streams, written.streams, [&](Bytes& out, uint64_t at) -> Result<> {
    put_varint(out, tables.streams[static_cast<StreamId>(at)]);
    return {};
  });
  put_next(have.pools, written.pools, [&](Bytes& out, uint64_t at) -> Result<> {
    put_pool(out, tables.pools[static_cast<PoolId>(at)]);
    return {};
  });
  return done;
}

Result<> decode_tables(std::span<const uint8_t> content, Tables& tables) {
  VarintReader reader(content);
  VRAM_TRY(read_strings_and_frames(reader, tables));
  VRAM_TRY(read_stacks_and_contexts(reader, tables));
  VRAM_TRY(read_streams_and_pools(reader, tables));
  if (!reader.done()) return fail(Code::kBadInput, "the tables end before their frame does");
  return {};
}

}  // namespace vram::trace
