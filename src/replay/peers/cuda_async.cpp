#include "replay/peers/cuda_async.hpp"

#include "base/bytes.hpp"
#include "base/check.hpp"

#include <algorithm>
#include <iterator>

namespace vram::replay {
namespace {

constexpr uint64_t kAsyncChunkBytes = 32 * kMiB;
constexpr uint64_t kAlignmentBytes = 512;
constexpr uint64_t kArenaBytes = uint64_t{1} << 46;  // never reached: no device is so fragmented
constexpr uint64_t kLargestBytes = uint64_t{1} << 45;

constexpr uint64_t chunk_of(uint64_t offset) {
  return offset / kAsyncChunkBytes * kAsyncChunkBytes;
}
constexpr uint64_t chunk_end_of(uint64_t offset) { return round_up(offset, kAsyncChunkBytes); }

}  // namespace

CudaAsync::Range CudaAsync::unmapped(uint64_t bytes) {
  Range range;
  range.bytes = bytes;
  return range;
}

CudaAsync::CudaAsync(const PeerContext& context)
    : segments_(context.segments), lag_ns_(context.lag_ns), blocks_(context.program.block_count) {
  base_ = segments_.reserve(kArenaBytes);
  VRAM_CHECK(base_ != 0);
}

uint64_t CudaAsync::malloc(const Request& request) {
  if (request.size_bytes > kLargestBytes) return 0;
  segments_.gpu().spend(gpu::Call::kMallocAsync);
  now_ns_ = request.time_ns;
  const uint64_t bytes = std::max<uint64_t>(request.size_bytes, 1);
  Wanted wanted{.size_bytes = round_up(bytes, kAlignmentBytes),
                .stream = request.stream,
                .time_ns = request.time_ns};
  auto offset = place_for(wanted);
  if (!offset) {
    wanted.may_wait = true;
    offset = place_for(wanted);
  }
  if (!offset) return 0;
  count_waits(*offset, wanted);
  carve(*offset, wanted.size_bytes);
  Block& block = blocks_[request.block];
  block = {.offset = *offset,
           .size_bytes = wanted.size_bytes,
           .requested_bytes = request.size_bytes,
           .stream = request.stream,
           .is_live = true};
  usage_.requested_bytes += block.requested_bytes;
  usage_.allocated_bytes += block.size_bytes;
  usage_.active_bytes += block.size_bytes;
  return base_ + block.offset;
}

void CudaAsync::free(uint32_t block, int64_t time_ns) {
  free_later(block, time_ns);
  complete(block, time_ns);
}

void CudaAsync::free_later(uint32_t id, int64_t time_ns) {
  static_cast<void>(time_ns);
  Block& block = blocks_[id];
  if (!block.is_live || block.is_pending) return;
  block.is_pending = true;
  usage_.allocated_bytes -= block.size_bytes;
}

void CudaAsync::complete(uint32_t id, int64_t time_ns) {
  Block& block = blocks_[id];
  if (!block.is_live) return;
  if (!block.is_pending) free_later(id, time_ns);
  segments_.gpu().spend(gpu::Call::kFreeAsync);
  now_ns_ = time_ns;
  block.is_live = block.is_pending = false;
  usage_.active_bytes -= block.size_bytes;
  usage_.requested_bytes -= block.requested_bytes;
  put(block.offset, {block.size_bytes, time_ns, block.stream, true});
}

void CudaAsync::empty_cache() {
  const Wanted everything{.may_wait = true};
  while (const auto chunk = spare_chunk(0, 0, everything)) {
    set_mapped(*chunk, false);
    segments_.unmap(base_ + *chunk, kAsyncChunkBytes, kAsyncChunkBytes);
    usage_.reserved_bytes -= kAsyncChunkBytes;
    ++counters_.device_frees;
  }
}

uint64_t CudaAsync::largest_free_bytes(const Request& request) const {
  static_cast<void>(request);
  return mapped_by_size_.empty() ? 0 : mapped_by_size_.rbegin()->first;
}

// Whether the work that used it is done, as far as the recorded times tell.
bool CudaAsync::is_done(const Range& range, const Wanted& wanted) const {
  return !range.is_mapped || wanted.time_ns - range.freed_ns >= lag_ns_;
}

bool CudaAsync::is_usable(const Range& range, const Wanted& wanted) const {
  return wanted.may_wait || range.stream == wanted.stream || is_done(range, wanted);
}

// Free and mapped from there on; none where the device has no room.
std::optional<uint64_t> CudaAsync::place_for(const Wanted& wanted) {
  if (const auto offset = best_fit(wanted)) return offset;
  const uint64_t offset = first_run(wanted);
  return back(offset, wanted) ? std::optional(offset) : std::nullopt;
}

std::optional<uint64_t> CudaAsync::best_fit(const Wanted& wanted) const {
  for (auto at = mapped_by_size_.lower_bound({wanted.size_bytes, 0}); at != mapped_by_size_.end();
       ++at) {
    if (is_usable(free_.at(at->second), wanted)) return at->second;
  }
  return {};
}

// The first run of neighbouring usable ranges that is long enough; the last one may reach past the
// arena's end.
uint64_t CudaAsync::first_run(const Wanted& wanted) {
  std::optional<uint64_t> first;
  for (auto run = runs_by_size_.lower_bound({wanted.size_bytes, 0}); run != runs_by_size_.end();
       ++run) {
    if (first && run->second > *first) continue;
    const auto place = place_in_run(run->second, wanted);
    if (place) first = place;
  }
  if (first) return *first;
  uint64_t begin = end_;
  for (auto at = free_.end(); at != free_.begin();) {
    --at;
    if (at->first + at->second.bytes != begin || !is_usable(at->second, wanted)) break;
    begin = at->first;
  }
  const uint64_t missing = wanted.size_bytes - (end_ - begin);
  const uint64_t grown = chunk_end_of(missing);
  put(end_, unmapped(grown));
  end_ += grown;
  return begin;
}

// Where usable ranges of a run of free ranges are long enough.
std::optional<uint64_t> CudaAsync::place_in_run(uint64_t run, const Wanted& wanted) const {
  uint64_t begin = run;
  uint64_t reach = run;
  for (auto at = free_.find(run); at != free_.end() && at->first == reach; ++at) {
    reach += at->second.bytes;
    if (!is_usable(at->second, wanted)) begin = reach;
    if (reach - begin >= wanted.size_bytes) return begin;
  }
  return {};
}

// Backs what is unmapped of the range; what was backed before a refusal stays, as free memory.
bool CudaAsync::back(uint64_t offset, const Wanted& wanted) {
  const uint64_t low = chunk_of(offset);
  const uint64_t high = chunk_end_of(offset + wanted.size_bytes);
  for (uint64_t chunk = low; chunk < high; chunk += kAsyncChunkBytes) {
    const auto after = free_.upper_bound(std::max(chunk, offset));
    VRAM_CHECK(after != free_.begin());
    if (!std::prev(after)->second.is_mapped && !back_chunk(chunk, low, high, wanted)) return false;
  }
  return true;
}

// With a chunk that lies free outside [low, high), else with a new one.
bool CudaAsync::back_chunk(uint64_t chunk, uint64_t low, uint64_t high, const Wanted& wanted) {
  if (const auto spare = spare_chunk(low, high, wanted)) {
    set_mapped(*spare, false);
    segments_.move(base_ + *spare, base_ + chunk, kAsyncChunkBytes);
    counters_.stream_waits += wanted.may_wait ? 1 : 0;
  } else if (segments_.map(base_ + chunk, kAsyncChunkBytes, kAsyncChunkBytes)) {
    usage_.reserved_bytes += kAsyncChunkBytes;
    counters_.peak_reserved_bytes = std::max(counters_.peak_reserved_bytes, usage_.reserved_bytes);
    ++counters_.device_allocs;
  } else {
    return false;
  }
  set_mapped(chunk, true);
  return true;
}

// The first by address.
std::optional<uint64_t> CudaAsync::spare_chunk(uint64_t low, uint64_t high,
                                               const Wanted& wanted) const {
  std::optional<uint64_t> first;
  for (auto large = mapped_by_size_.lower_bound({kAsyncChunkBytes, 0});
       large != mapped_by_size_.end(); ++large) {
    const auto [bytes, offset] = *large;
    if (first && offset > *first) continue;
    if (!wanted.may_wait && !is_done(free_.at(offset), wanted)) continue;
    uint64_t chunk = chunk_end_of(offset);
    if (chunk >= low && chunk < high) chunk = high;
    if (chunk + kAsyncChunkBytes <= offset + bytes) first = chunk;
  }
  return first;
}

// Ranges that other streams may still use make the stream wait.
void CudaAsync::count_waits(uint64_t offset, const Wanted& wanted) {
  auto range = std::prev(free_.upper_bound(offset));
  for (; range != free_.end() && range->first < offset + wanted.size_bytes; ++range) {
    const bool is_own = range->second.stream == wanted.stream;
    if (!is_own && !is_done(range->second, wanted)) ++counters_.stream_waits;
  }
}

void CudaAsync::set_mapped(uint64_t chunk, bool is_mapped) {
  Range range = carve(chunk, kAsyncChunkBytes);
  if (!is_mapped) range = unmapped(kAsyncChunkBytes);
  range.is_mapped = is_mapped;
  put(chunk, range);
}

// Takes [offset, offset + bytes) out of the free ranges that hold it.
CudaAsync::Range CudaAsync::carve(uint64_t offset, uint64_t bytes) {
  auto at = std::prev(free_.upper_bound(offset));
  Range taken = at->second;
  taken.bytes = bytes;
  while (at != free_.end() && at->first < offset + bytes) {
    const uint64_t begin = at->first;
    const Range range = at->second;
    at = drop(at);
    Range part = range;
    if (begin < offset) {
      part.bytes = offset - begin;
      put(begin, part);
    }
    if (begin + range.bytes > offset + bytes) {
      part.bytes = begin + range.bytes - (offset + bytes);
      put(offset + bytes, part);
      break;
    }
  }
  return taken;
}

// Whether two neighbours are as good as one range: of one stream, or one has nothing to wait for.
bool CudaAsync::joins(const Range& a, const Range& b) const {
  if (a.is_mapped != b.is_mapped) return false;
  return a.stream == b.stream || now_ns_ - std::min(a.freed_ns, b.freed_ns) >= lag_ns_;
}

void CudaAsync::put(uint64_t offset, Range range) {
  const auto join = [&](Ranges::iterator other) {
    const Range& part = other->second;
    range.bytes += part.bytes;
    if (part.freed_ns > range.freed_ns) {
      range.freed_ns = part.freed_ns;
      range.stream = part.stream;
    }
    return drop(other);
  };
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + range.bytes && joins(range, next->second)) {
    next = join(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == offset && joins(range, before->second)) {
      offset = before->first;
      join(before);
    }
  }
  free_.emplace(offset, range);
  if (range.is_mapped) mapped_by_size_.emplace(range.bytes, offset);
  add_to_runs(offset, range.bytes);
}

CudaAsync::Ranges::iterator CudaAsync::drop(Ranges::iterator range) {
  if (range->second.is_mapped) mapped_by_size_.erase({range->second.bytes, range->first});
  take_from_runs(range->first, range->second.bytes);
  return free_.erase(range);
}

void CudaAsync::add_to_runs(uint64_t offset, uint64_t bytes) {
  auto next = runs_.lower_bound(offset);
  if (next != runs_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = drop_run(next);
  }
  if (next != runs_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      drop_run(before);
    }
  }
  runs_.emplace(offset, bytes);
  runs_by_size_.emplace(bytes, offset);
}

void CudaAsync::take_from_runs(uint64_t offset, uint64_t bytes) {
  const auto run = std::prev(runs_.upper_bound(offset));
  const auto [begin, run_bytes] = *run;
  drop_run(run);
  if (begin < offset) add_to_runs(begin, offset - begin);
  const uint64_t end = begin + run_bytes;
  if (end > offset + bytes) add_to_runs(offset + bytes, end - (offset + bytes));
}

CudaAsync::Runs::iterator CudaAsync::drop_run(Runs::iterator run) {
  runs_by_size_.erase({run->second, run->first});
  return runs_.erase(run);
}

std::unique_ptr<Allocator> make_cuda_async(Settings settings, const PeerContext& context) {
  static_cast<void>(settings);
  return std::make_unique<CudaAsync>(context);
}

}  // namespace vram::replay
