#include "replay/peers/cuda_async.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <algorithm>
#include <iterator>

namespace vram::replay {
namespace {

constexpr uint64_t kAsyncChunkBytes = 32 * kMiB;
constexpr uint64_t kAlignmentBytes = 512;
constexpr uint64_t kArenaBytes = uint64_t{1} << 46;  // never reached: no device is so fragmented
constexpr uint64_t kMaxAllocationBytes = uint64_t{1} << 45;

constexpr uint64_t chunk_of(uint64_t offset) {
  return offset / kAsyncChunkBytes * kAsyncChunkBytes;
}
constexpr uint64_t chunk_end_of(uint64_t offset) { return round_up(offset, kAsyncChunkBytes); }

}  // namespace

CudaAsync::CudaAsync(const PeerContext& context)
    : segments_(context.segments),
      lag_ns_(context.lag_ns),
      part_of_block_(context.program.block_count, kNoPart) {
  base_ = segments_.reserve(kArenaBytes);
  VRAM_CHECK(base_ != 0);
}

uint64_t CudaAsync::malloc(const Request& request) {
  if (request.size_bytes > kMaxAllocationBytes) return 0;
  segments_.gpu().spend(gpu::Call::kMallocAsync);
  now_ns_ = request.time_ns;
  const uint64_t bytes = std::max<uint64_t>(request.size_bytes, 1);
  Wanted wanted{.size_bytes = round_up(bytes, kAlignmentBytes),
                .stream = request.stream,
                .time_ns = request.time_ns};
  auto place = place_for(wanted);
  if (!place) {
    wanted.may_wait = true;
    place = place_for(wanted);
  }
  if (!place) return 0;
  count_waits(*place, wanted);
  const PartId id = carve(*place, wanted.size_bytes);
  part_of_block_[request.block] = id;
  Part& block = parts_[id];
  block.requested_bytes = request.size_bytes;
  block.stream = request.stream;
  block.is_pending = false;
  usage_.requested_bytes += block.requested_bytes;
  usage_.allocated_bytes += block.bytes;
  usage_.active_bytes += block.bytes;
  return base_ + block.offset;
}

void CudaAsync::free(uint32_t block, int64_t time_ns) { complete(block, time_ns); }

void CudaAsync::free_later(uint32_t block, int64_t time_ns) {
  static_cast<void>(time_ns);
  const PartId id = part_of_block_[block];
  if (id == kNoPart || parts_[id].is_pending) return;
  parts_[id].is_pending = true;
  usage_.allocated_bytes -= parts_[id].bytes;
}

void CudaAsync::complete(uint32_t block, int64_t time_ns) {
  free_later(block, time_ns);
  const PartId id = part_of_block_[block];
  if (id == kNoPart) return;
  segments_.gpu().spend(gpu::Call::kFreeAsync);
  now_ns_ = time_ns;
  part_of_block_[block] = kNoPart;
  usage_.active_bytes -= parts_[id].bytes;
  usage_.requested_bytes -= parts_[id].requested_bytes;
  parts_[id].freed_ns = time_ns;
  put(id);
}

void CudaAsync::empty_cache() {
  const Wanted everything{.may_wait = true};
  while (const auto chunk = spare_chunk(0, 0, everything)) {
    set_mapped(*chunk, false);
    segments_.unmap(base_ + chunk->offset, kAsyncChunkBytes, kAsyncChunkBytes);
    usage_.reserved_bytes -= kAsyncChunkBytes;
    ++counters_.device_frees;
  }
}

uint64_t CudaAsync::largest_free_bytes(const Request& request) const {
  static_cast<void>(request);
  const FreeBlock* largest = mapped_.largest();
  return largest != nullptr ? largest->size_bytes : 0;
}

// Whether the work that used it is done, as far as the recorded times tell.
bool CudaAsync::is_done(const Part& range, const Wanted& wanted) const {
  return !range.is_mapped || wanted.time_ns - range.freed_ns >= lag_ns_;
}

bool CudaAsync::is_usable(const Part& range, const Wanted& wanted) const {
  return wanted.may_wait || range.stream == wanted.stream || is_done(range, wanted);
}

// Free and mapped from there on; none where the device has no room.
std::optional<CudaAsync::Place> CudaAsync::place_for(const Wanted& wanted) {
  const PartId best = best_fit(wanted);
  if (best != kNoPart) return Place{best, parts_[best].offset};
  const RunPlace place = first_run(wanted);
  if (!back(place, wanted)) return std::nullopt;
  return Place{range_at(place), place.offset};
}

CudaAsync::PartId CudaAsync::best_fit(const Wanted& wanted) const {
  for (auto at = mapped_.at_least(wanted.size_bytes); !mapped_.is_end(at); at = mapped_.next(at)) {
    if (is_usable(parts_[mapped_[at].node], wanted)) return mapped_[at].node;
  }
  return kNoPart;
}

// The first run of neighbouring usable ranges that is long enough; the last one may reach past the
// arena's end. A single mapped range is none that best_fit() has not refused.
CudaAsync::RunPlace CudaAsync::first_run(const Wanted& wanted) {
  std::optional<RunPlace> first;
  for (auto run = runs_by_size_.lower_bound({wanted.size_bytes, 0}); run != runs_by_size_.end();
       ++run) {
    if (first && run->second > first->offset) continue;
    const PartId head = runs_.at(run->second).first;
    const auto offset = place_in_run(head, wanted);
    if (offset) first = {parts_[head].prev, *offset};
  }
  return first ? *first : grow(wanted);
}

// Where usable ranges of a run of free ranges are long enough.
std::optional<uint64_t> CudaAsync::place_in_run(PartId first, const Wanted& wanted) const {
  uint64_t begin = parts_[first].offset;
  for (PartId at = first; parts_[at].is_free; at = parts_[at].next) {
    const uint64_t reach = parts_[at].end();
    if (!is_usable(parts_[at], wanted)) begin = reach;
    if (reach - begin >= wanted.size_bytes) return begin;
  }
  return {};
}

CudaAsync::RunPlace CudaAsync::grow(const Wanted& wanted) {
  const PartId last = parts_[kEdge].prev;
  const uint64_t end = parts_[last].end();
  RunPlace place{last, end};
  for (; parts_[place.before].is_free; place.before = parts_[place.before].prev) {
    const Part& range = parts_[place.before];
    if (range.end() == place.offset && is_usable(range, wanted)) place.offset = range.offset;
  }
  const PartId added = add_part(last);
  parts_[added].offset = end;
  parts_[added].bytes = chunk_end_of(wanted.size_bytes - (end - place.offset));
  put(added);
  return place;
}

// The free range that holds the offset.
CudaAsync::PartId CudaAsync::range_at(const RunPlace& place) const {
  PartId at = parts_[place.before].next;
  while (parts_[at].end() <= place.offset) {
    VRAM_CHECK(parts_[at].is_free);
    at = parts_[at].next;
  }
  return at;
}

// Backs what is unmapped of the range; what was backed before a refusal stays, as free memory.
bool CudaAsync::back(const RunPlace& place, const Wanted& wanted) {
  const uint64_t low = chunk_of(place.offset);
  const uint64_t high = chunk_end_of(place.offset + wanted.size_bytes);
  for (uint64_t chunk = low; chunk < high; chunk += kAsyncChunkBytes) {
    const PartId range = range_at({place.before, std::max(chunk, place.offset)});
    if (parts_[range].is_mapped) continue;
    if (!back_chunk({place.before, chunk}, low, high, wanted)) return false;
  }
  return true;
}

// With a chunk that lies free outside [low, high), else with a new one.
bool CudaAsync::back_chunk(const RunPlace& chunk, uint64_t low, uint64_t high,
                           const Wanted& wanted) {
  if (const auto spare = spare_chunk(low, high, wanted)) {
    set_mapped(*spare, false);
    segments_.move(base_ + spare->offset, base_ + chunk.offset, kAsyncChunkBytes);
    counters_.stream_waits += wanted.may_wait ? 1 : 0;
  } else if (segments_.map(base_ + chunk.offset, kAsyncChunkBytes, kAsyncChunkBytes)) {
    usage_.reserved_bytes += kAsyncChunkBytes;
    counters_.peak_reserved_bytes = std::max(counters_.peak_reserved_bytes, usage_.reserved_bytes);
    ++counters_.device_allocs;
  } else {
    return false;
  }
  set_mapped({range_at(chunk), chunk.offset}, true);
  return true;
}

// The first by address.
std::optional<CudaAsync::Place> CudaAsync::spare_chunk(uint64_t low, uint64_t high,
                                                       const Wanted& wanted) const {
  std::optional<Place> first;
  for (auto at = mapped_.at_least(kAsyncChunkBytes); !mapped_.is_end(at); at = mapped_.next(at)) {
    const FreeBlock& large = mapped_[at];
    if (first && large.address > first->offset) continue;
    if (!wanted.may_wait && !is_done(parts_[large.node], wanted)) continue;
    uint64_t chunk = chunk_end_of(large.address);
    if (chunk >= low && chunk < high) chunk = high;
    if (chunk + kAsyncChunkBytes <= large.address + large.size_bytes) first = {large.node, chunk};
  }
  return first;
}

// Ranges that other streams may still use make the stream wait.
void CudaAsync::count_waits(const Place& place, const Wanted& wanted) {
  const uint64_t end = place.offset + wanted.size_bytes;
  for (PartId at = place.range; parts_[at].is_free && parts_[at].offset < end;
       at = parts_[at].next) {
    const bool is_own = parts_[at].stream == wanted.stream;
    if (!is_own && !is_done(parts_[at], wanted)) ++counters_.stream_waits;
  }
}

void CudaAsync::set_mapped(const Place& chunk, bool is_mapped) {
  const PartId id = carve(chunk, kAsyncChunkBytes);
  Part& part = parts_[id];
  if (!is_mapped) {
    part.freed_ns = kNever;
    part.stream = kNeverUsed;
  }
  part.is_mapped = is_mapped;
  put(id);
}

// Makes one part that is not free of so many bytes of free ranges: as its first range was.
CudaAsync::PartId CudaAsync::carve(const Place& place, uint64_t bytes) {
  PartId id = place.range;
  take_out(id);
  if (place.offset > parts_[id].offset) {
    const PartId upper = split(id, place.offset - parts_[id].offset);
    put(id);
    id = upper;
  }
  put_rest(id, bytes);
  while (parts_[id].bytes < bytes) {
    const PartId next = parts_[id].next;
    take_out(next);
    put_rest(next, bytes - parts_[id].bytes);
    swallow(id, next);
  }
  return id;
}

// A part becomes a free range, and one with its neighbours where that is all the same.
void CudaAsync::put(PartId id) {
  for (const PartId neighbour : {parts_[id].next, parts_[id].prev}) {
    if (parts_[neighbour].is_free && joins(parts_[id], parts_[neighbour])) absorb(id, neighbour);
  }
  Part& range = parts_[id];
  range.is_free = true;
  if (range.is_mapped) mapped_.insert({range.bytes, range.offset, id});
  if (is_in_run(range)) add_to_runs(id);
}

void CudaAsync::take_out(PartId id) {
  Part& range = parts_[id];
  if (is_in_run(range)) take_from_runs(id);
  if (range.is_mapped) mapped_.erase(range.bytes, range.offset);
  range.is_free = false;
}

// What is above so many bytes of a part becomes a free range.
void CudaAsync::put_rest(PartId id, uint64_t bytes) {
  if (parts_[id].bytes > bytes) put(split(id, bytes));
}

// Whether two neighbours are as good as one range: of one stream, or one has nothing to wait for.
bool CudaAsync::joins(const Part& a, const Part& b) const {
  if (a.is_mapped != b.is_mapped) return false;
  return a.stream == b.stream || now_ns_ - std::min(a.freed_ns, b.freed_ns) >= lag_ns_;
}

void CudaAsync::absorb(PartId id, PartId neighbour) {
  take_out(neighbour);
  Part& range = parts_[id];
  const Part& other = parts_[neighbour];
  if (other.freed_ns > range.freed_ns) {
    range.freed_ns = other.freed_ns;
    range.stream = other.stream;
  }
  swallow(id, neighbour);
}

CudaAsync::PartId CudaAsync::split(PartId id, uint64_t bytes) {
  const PartId upper = add_part(id);
  Part& low = parts_[id];
  Part& high = parts_[upper];
  high.offset = low.offset + bytes;
  high.bytes = low.bytes - bytes;
  high.freed_ns = low.freed_ns;
  high.stream = low.stream;
  high.is_mapped = low.is_mapped;
  low.bytes = bytes;
  return upper;
}

void CudaAsync::swallow(PartId id, PartId neighbour) {
  Part& part = parts_[id];
  const Part& other = parts_[neighbour];
  part.offset = std::min(part.offset, other.offset);
  part.bytes += other.bytes;
  parts_[other.prev].next = other.next;
  parts_[other.next].prev = other.prev;
  unused_.push_back(neighbour);
}

// Not free, and nothing is known of it.
CudaAsync::PartId CudaAsync::add_part(PartId after) {
  PartId id = static_cast<PartId>(parts_.size());
  if (unused_.empty()) {
    parts_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
    parts_[id] = Part{};
  }
  const PartId next = parts_[after].next;
  parts_[id].prev = after;
  parts_[id].next = next;
  parts_[after].next = id;
  parts_[next].prev = id;
  return id;
}

bool CudaAsync::is_in_run(const Part& range) const {
  return !range.is_mapped || parts_[range.prev].is_free || parts_[range.next].is_free;
}

void CudaAsync::add_to_runs(PartId id) {
  PartId first = id;
  uint64_t end = parts_[id].end();
  if (const PartId prev = parts_[id].prev; parts_[prev].is_free) {
    const auto before = run_of(prev);
    first = before != runs_.end() ? before->second.first : prev;
    drop_run(before);
  }
  if (const PartId next = parts_[id].next; parts_[next].is_free) {
    const auto after = run_of(next);
    end = after != runs_.end() ? after->first + after->second.bytes : parts_[next].end();
    drop_run(after);
  }
  add_run(first, end);
}

void CudaAsync::take_from_runs(PartId id) {
  const auto run = run_of(id);
  VRAM_CHECK(run != runs_.end());
  const auto [begin, whole] = *run;
  drop_run(run);
  const Part& range = parts_[id];
  if (begin < range.offset) add_run(whole.first, range.offset);
  if (begin + whole.bytes > range.end()) add_run(range.next, begin + whole.bytes);
}

// The ranges from the first one to the end, unless that is a single mapped one.
void CudaAsync::add_run(PartId first, uint64_t end) {
  const Part& range = parts_[first];
  if (range.is_mapped && range.end() == end) return;
  runs_.emplace(range.offset, Run{end - range.offset, first});
  runs_by_size_.emplace(end - range.offset, range.offset);
}

CudaAsync::Runs::iterator CudaAsync::run_of(PartId id) {
  const uint64_t offset = parts_[id].offset;
  const auto after = runs_.upper_bound(offset);
  if (after == runs_.begin()) return runs_.end();
  const auto run = std::prev(after);
  return offset < run->first + run->second.bytes ? run : runs_.end();
}

void CudaAsync::drop_run(Runs::iterator run) {
  if (run == runs_.end()) return;
  runs_by_size_.erase({run->second.bytes, run->first});
  runs_.erase(run);
}

std::unique_ptr<Allocator> make_cuda_async(Settings settings, const PeerContext& context) {
  static_cast<void>(settings);
  return std::make_unique<CudaAsync>(context);
}

}  // namespace vram::replay
