#include "trace/vtrace/index.hpp"

#include "base/varint.hpp"

namespace vram::trace {

void encode_index(std::span<const IndexedFrame> frames, PodVector<uint8_t>& content) {
  content.truncate(0);
  put_varint(content, frames.size());
  uint64_t before = 0;
  for (const IndexedFrame& frame : frames) {
    const FrameHeader& header = frame.header;
    const auto min_time = static_cast<uint64_t>(header.min_time_ns);
    const auto max_time = static_cast<uint64_t>(header.max_time_ns);
    put_varint(content, static_cast<uint64_t>(header.type));
    put_varint(content, header.flags);
    put_varint(content, header.device);
    put_varint(content, header.payload_bytes);
    put_varint(content, header.item_count);
    put_varint(content, header.first_event);
    put_signed(content, wrapping_difference(min_time, before));
    put_signed(content, wrapping_difference(max_time, min_time));
    before = min_time;
  }
}

Result<std::vector<IndexedFrame>> decode_index(std::span<const uint8_t> content,
                                               uint64_t index_offset) {
  VarintReader reader(content);
  const uint64_t count = reader.get_count();
  std::vector<IndexedFrame> frames;
  uint64_t offset = kFileHeaderBytes;
  uint64_t time = 0;
  for (uint64_t i = 0; i < count && !reader.failed(); ++i) {
    IndexedFrame frame;
    frame.offset = offset;
    FrameHeader& header = frame.header;
    header.type = static_cast<FrameType>(reader.get());
    header.flags = static_cast<uint8_t>(reader.get());
    header.device = static_cast<uint16_t>(reader.get());
    header.payload_bytes = static_cast<uint32_t>(reader.get());
    header.item_count = static_cast<uint32_t>(reader.get());
    header.first_event = reader.get();
    time = wrapping_sum(time, reader.get_signed());
    header.min_time_ns = static_cast<int64_t>(time);
    header.max_time_ns = static_cast<int64_t>(wrapping_sum(time, reader.get_signed()));
    offset += kFrameHeaderBytes + header.payload_bytes;
    frames.push_back(frame);
  }
  if (!reader.done() || offset != index_offset)
    return fail(Code::kBadInput, "the index does not describe the file it is in");
  return frames;
}

}  // namespace vram::trace
