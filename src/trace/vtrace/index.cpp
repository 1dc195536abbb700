#include "trace/vtrace/index.hpp"

#include "base/varint.hpp"

namespace vram::trace {

void encode_index(std::span<const FrameHeader> frames, PodVector<uint8_t>& content) {
  content.truncate(0);
  put_varint(content, frames.size());
  uint64_t before = 0;
  for (const FrameHeader& header : frames) {
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

}  // namespace vram::trace
