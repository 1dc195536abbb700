// SegmentList: the segments of a process's allocators and the blocks in them, at one moment. The
// process lists them in a file when another program asks through its status page
// (BoardSlot::kSegments).
//
//     the owner ──▶ write_segments ──▶ file of the board's folder ──▶ read_segments ──▶ the
//     requester
//
// The file is a SegmentListHead, its segments, and their blocks, those of the first segment first.
// A reader trusts nothing of it: another program may have written it.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"
#include "record/board_page.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vram::record {

// A file has at most 1.9 MB. Larger lists lose the last of their segments.
inline constexpr size_t kMaxListedSegments = size_t{1} << 13;
inline constexpr size_t kMaxListedBlocks = size_t{1} << 16;

enum class BlockState : uint64_t {
  kFree,
  kAllocated,
  kHeld,  // freed, but work of other streams still uses it
};

struct ListedBlock {
  uint64_t size_bytes = 0;
  uint64_t requested_bytes = 0;  // of a block that is not free; 0: unknown
  BlockState state = BlockState::kFree;
};

// Bits of ListedSegment::kinds.
inline constexpr uint32_t kSegmentSmall = 1;       // of small requests
inline constexpr uint32_t kSegmentExpandable = 2;  // grows by pages
inline constexpr uint32_t kSegmentPrivate = 4;     // of a pool that the program keeps apart

struct ListedSegment {
  uint64_t device = 0;  // as the process numbers it
  uint64_t address = 0;
  uint64_t size_bytes = 0;  // the sum of its blocks
  uint64_t stream = 0;
  uint32_t kinds = 0;
  uint32_t block_count = 0;
};

// What all segments have together, including those that are left out.
struct SegmentTotals {
  uint64_t segments = 0;
  uint64_t blocks = 0;
  uint64_t bytes = 0;
};

struct SegmentList {
  uint64_t taken_ns = 0;  // CLOCK_MONOTONIC
  SegmentTotals totals;
  std::vector<ListedSegment> segments;
  std::vector<ListedBlock> blocks;
};

// The file in which the owner answers such a request; no pid has such a name.
[[nodiscard]] std::string answered_segments(const std::string& folder, uint32_t pid,
                                            uint64_t number);

// Writes the file, which must not exist, with mode 0600, and returns its size in bytes. kBadInput:
// the segments and blocks do not add up. kIo: it cannot be written; then it is removed.
[[nodiscard]] Result<uint64_t> write_segments(const std::string& path,
                                              std::span<const ListedSegment> segments,
                                              std::span<const ListedBlock> blocks);
// kBadInput: it is no such list, or does not add up.
[[nodiscard]] Result<SegmentList> read_segments(const Descriptor& file);

}  // namespace vram::record
