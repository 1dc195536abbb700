// CachingBase: the common part of emulated caching allocators: blocks freed by the program,
// segments taken from and released to the simulated GPU, and the limit on reserved bytes. Between
// Allocator and the peers, above block_cache. Single-threaded; allocates at most once for each
// segment.
#pragma once

#include "base/bytes.hpp"
#include "replay/allocator.hpp"
#include "replay/peers/block_cache.hpp"
#include "replay/segment_source.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vram::replay {

// The address returned for a request of 0 bytes: not null, without memory.
inline constexpr uint64_t kEmptyBlockAddress = 1;

class CachingBase : public Allocator {
 public:
  // limit_bytes: on reserved bytes. program and segments must outlive it.
  CachingBase(std::optional<uint64_t> limit_bytes, const Program& program, SegmentSource& segments)
      : limit_bytes_(limit_bytes),
        cache_(program.stream_handles, program.block_count),
        segments_(segments) {}

  void free(uint32_t block, int64_t time_ns) override;
  void free_later(uint32_t block, int64_t time_ns) override;
  void complete(uint32_t block, int64_t time_ns) override;

  [[nodiscard]] const Usage& usage() const override { return cache_.usage(); }
  [[nodiscard]] const Counters& counters() const override { return cache_.counters(); }

 protected:
  [[nodiscard]] bool is_refused_by_limit(uint64_t bytes) const {
    const uint64_t reserved = cache_.usage().reserved_bytes;
    return limit_bytes_ && (reserved > *limit_bytes_ || bytes > *limit_bytes_ - reserved);
  }
  // Returns a segment as one block, in no free set; kNoNode if the device has too little memory.
  // The caller checks the limit.
  [[nodiscard]] NodeId take_segment(uint64_t bytes, uint32_t lane);
  [[nodiscard]] NodeId take_segment_within_limit(uint64_t bytes, uint32_t lane) {
    return is_refused_by_limit(bytes) ? kNoNode : take_segment(bytes, lane);
  }
  [[nodiscard]] NodeId add_segment(uint64_t address, uint64_t bytes, uint32_t lane);
  [[nodiscard]] NodeId take_initial_segment(const InitialSegment& segment);
  // Puts a segment's initial blocks at their places in `node`, which begins where the segment does
  // and is in no free set; the space between them becomes free. `next` is the first block of no
  // earlier segment, and is advanced.
  void place_initial_blocks(NodeId node, const Program& program, const InitialSegment& segment,
                            uint32_t& next);
  // The block is free and is a whole segment.
  void give_back_segment(NodeId node);
  // Every such block of a group.
  void give_back_segments(const LaneGroup& group);
  // Every such block of a lane, by address.
  [[nodiscard]] std::vector<NodeId> free_segments(uint32_t lane);
  // Takes the smallest block that suffices, of those the lowest, out of the lane's free set.
  [[nodiscard]] NodeId take_best_fit(uint32_t lane, uint64_t size_bytes);
  // Splits off the part above size_bytes as a free block of the same lane.
  void split_off_rest(NodeId node, uint64_t size_bytes) {
    cache_.put_free(cache_.split(node, size_bytes));
  }
  // The result of requests that need no search: of 0 bytes, or of more than any device has.
  [[nodiscard]] static std::optional<uint64_t> answer_at_once(uint64_t requested_bytes) {
    if (requested_bytes == 0) return kEmptyBlockAddress;
    if (requested_bytes > gpu::kUnlimited) return 0;
    return std::nullopt;
  }
  // The block goes to the program: its address.
  [[nodiscard]] uint64_t hand_out(NodeId node, const Request& request) {
    cache_.hand_out(node, request.block, request.size_bytes);
    return cache_[node].address;
  }

  std::optional<uint64_t> limit_bytes_;
  BlockCache cache_;
  SegmentSource& segments_;
};

}  // namespace vram::replay
