#include "record/segment_list.hpp"

#include "base/clock.hpp"
#include "base/result.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::record {
namespace {

struct SegmentListHead {
  uint64_t magic = 0x31534745534D5256;  // "VRMSEGS1"
  uint64_t taken_ns = 0;
  SegmentTotals totals;
  uint64_t segment_count = 0;
  uint64_t block_count = 0;
};

bool is_block(const ListedBlock& block) {
  return block.size_bytes > 0 && block.state <= BlockState::kHeld &&
         block.requested_bytes <= block.size_bytes;
}

// Whether each segment consists of its blocks, and all blocks are in segments.
bool adds_up(std::span<const ListedSegment> segments, std::span<const ListedBlock> blocks,
             SegmentTotals* totals) {
  size_t next = 0;
  for (const ListedSegment& segment : segments) {
    if (segment.block_count > blocks.size() - next) return false;
    uint64_t bytes = 0;
    for (const ListedBlock& block : blocks.subspan(next, segment.block_count)) {
      if (!is_block(block) || __builtin_add_overflow(bytes, block.size_bytes, &bytes)) return false;
    }
    uint64_t end = 0;
    if (bytes != segment.size_bytes || __builtin_add_overflow(segment.address, bytes, &end) ||
        __builtin_add_overflow(totals->bytes, bytes, &totals->bytes))
      return false;
    next += segment.block_count;
  }
  totals->segments = segments.size();
  totals->blocks = blocks.size();
  return next == blocks.size();
}

bool write_all(int file, const void* from, size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t written = write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool read_all(int file, void* to, size_t bytes, size_t offset) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t read = pread(file, at, bytes, static_cast<off_t>(offset));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    at += read;
    offset += static_cast<size_t>(read);
    bytes -= static_cast<size_t>(read);
  }
  return true;
}

tl::unexpected<Error> no_list(const char* what) {
  return fail(Code::kBadInput, "expected a list of segments, found {}", what);
}

}  // namespace

std::string answered_segments(const std::string& folder, uint32_t pid, uint64_t number) {
  return fmt::format("{}/segments-{}-{}", folder, pid, number);
}

Result<uint64_t> write_segments(const std::string& path, std::span<const ListedSegment> segments,
                                std::span<const ListedBlock> blocks) {
  SegmentListHead head;
  if (!adds_up(segments, blocks, &head.totals))
    return fail(Code::kBadInput,
                "expected each segment to have the size of its blocks, and each block to be in a "
                "segment, found {} segments and {} blocks that do not add up",
                segments.size(), blocks.size());
  head.taken_ns = static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
  for (const ListedSegment& segment : segments) {
    if (head.segment_count == kMaxListedSegments ||
        head.block_count + segment.block_count > kMaxListedBlocks)
      break;
    ++head.segment_count;
    head.block_count += segment.block_count;
  }
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const size_t segment_bytes = head.segment_count * sizeof(ListedSegment);
  const size_t block_bytes = head.block_count * sizeof(ListedBlock);
  if (!file.is_open() || !write_all(file.number(), &head, sizeof head) ||
      !write_all(file.number(), segments.data(), segment_bytes) ||
      !write_all(file.number(), blocks.data(), block_bytes)) {
    const int error = errno;
    if (file.is_open()) (void)unlink(path.c_str());
    return fail(Code::kIo, "cannot write {}: {}", path,
                std::strerror(error));  // NOLINT(concurrency-mt-unsafe)
  }
  return sizeof head + segment_bytes + block_bytes;
}

Result<SegmentList> read_segments(const Descriptor& file) {
  SegmentListHead head;
  const uint64_t magic = head.magic;
  struct stat facts{};
  if (fstat(file.number(), &facts) != 0 || !read_all(file.number(), &head, sizeof head, 0) ||
      head.magic != magic)
    return no_list("another file");
  if (head.segment_count > kMaxListedSegments || head.block_count > kMaxListedBlocks)
    return no_list("more segments or blocks than a list may have");
  const size_t segment_bytes = head.segment_count * sizeof(ListedSegment);
  const size_t block_bytes = head.block_count * sizeof(ListedBlock);
  if (static_cast<uint64_t>(facts.st_size) != sizeof head + segment_bytes + block_bytes)
    return no_list("a file of another size");
  SegmentList list{.taken_ns = head.taken_ns, .totals = head.totals, .segments = {}, .blocks = {}};
  list.segments.resize(head.segment_count);
  list.blocks.resize(head.block_count);
  if (!read_all(file.number(), list.segments.data(), segment_bytes, sizeof head) ||
      !read_all(file.number(), list.blocks.data(), block_bytes, sizeof head + segment_bytes))
    return no_list("a file that is being changed");
  SegmentTotals listed;
  if (!adds_up(list.segments, list.blocks, &listed) || listed.bytes > head.totals.bytes ||
      listed.segments > head.totals.segments || listed.blocks > head.totals.blocks)
    return no_list("segments and blocks that do not add up");
  return list;
}

}  // namespace vram::record
