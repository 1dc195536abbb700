// The positions and times of a file's frames, to read a part of a long recording. Written as the
// last frame of a finished file; for a file without it (its writer was killed) the same list comes
// from the frames' headers, without decompression.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/vtrace/format.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::trace {

struct IndexedFrame {
  uint64_t offset = 0;  // of its header, from the start of the file
  FrameHeader header;   // content_bytes is not in the index and 0 when read from there

  // Whether any of its items may be in [from_ns, to_ns).
  [[nodiscard]] bool overlaps(int64_t from_ns, int64_t to_ns) const {
    return header.item_count != 0 && header.min_time_ns < to_ns && header.max_time_ns >= from_ns;
  }
  friend bool operator==(const IndexedFrame&, const IndexedFrame&) = default;
};

void encode_index(std::span<const IndexedFrame> frames, PodVector<uint8_t>& content);
// The frames must follow each other from the file's header up to index_offset.
[[nodiscard]] Result<std::vector<IndexedFrame>> decode_index(std::span<const uint8_t> content,
                                                             uint64_t index_offset);

}  // namespace vram::trace
