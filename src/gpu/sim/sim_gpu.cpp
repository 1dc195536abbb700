#include "gpu/sim/sim_gpu.hpp"

#include "base/bytes.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace vram::gpu {
namespace {

bool is_granular(uint64_t bytes) { return bytes != 0 && bytes % kGranularityBytes == 0; }

}  // namespace

SimGpu::SimGpu(const SimOptions& options)
    : costs_(options.costs),
      addresses_(options.address_layout, options.places_anywhere),
      physical_(options.devices, options.backing),
      backing_(options.backing),
      poison_on_unmap_(options.poison_on_unmap) {}

Status SimGpu::begin(Call call) {
  ++stats_[call].count;
  const Status fault = faults_.next(call);
  return fault == Status::kOk ? fault : refuse(call, fault);
}

Status SimGpu::done(Call call, int64_t cost_ns) {
  stats_[call].time_ns += cost_ns;
  now_ns_ += cost_ns;
  return Status::kOk;
}

Status SimGpu::refuse(Call call, Status status) {
  ++stats_[call].failed;
  (void)done(call, costs_.of(call, 0));
  return status;
}

void SimGpu::spend(Call call) {
  ++stats_[call].count;
  (void)done(call, costs_.of(call, 0));
}

void SimGpu::wait_until(Call call, int64_t time_ns) {
  const int64_t wait_ns = std::max<int64_t>(0, time_ns - now_ns_);
  stats_[call].waited_ns += wait_ns;
  now_ns_ += wait_ns;
}

Status SimGpu::memory_info(uint32_t device, MemoryInfo* info) {
  if (const Status s = begin(Call::kMemoryInfo); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kMemoryInfo, Status::kInvalidValue);
  *info = physical_.info(device);
  return done(Call::kMemoryInfo, costs_.memory_info_ns);
}

Status SimGpu::alloc_segment(uint32_t device, uint64_t bytes, Address* address) {
  const Address wanted = std::exchange(next_address_, 0);
  if (const Status s = begin(Call::kAllocSegment); s != Status::kOk) return s;
  if (!is_device(device) || bytes == 0) return refuse(Call::kAllocSegment, Status::kInvalidValue);
  const Address at = bytes < kGranularityBytes ? alloc_small(device, bytes)
                                               : alloc_pages(device, bytes, wanted, false);
  if (at == 0) return refuse(Call::kAllocSegment, Status::kOutOfMemory);
  *address = at;
  return done(Call::kAllocSegment, costs_.alloc_segment.at(bytes));
}

Address SimGpu::alloc_small(uint32_t device, uint64_t bytes) {
  const Address at = segments_.take_shared(device, bytes);
  if (at != 0 || alloc_pages(device, kGranularityBytes, 0, true) == 0) return at;
  return segments_.take_shared(device, bytes);
}

Address SimGpu::alloc_pages(uint32_t device, uint64_t bytes, Address wanted, bool shared) {
  if (bytes > kUnlimited) return 0;
  const uint64_t rounded = round_up(bytes, kGranularityBytes);
  if (!physical_.take(device, rounded)) return 0;
  const bool is_placed = wanted != 0 && addresses_.place_segment(wanted, rounded);
  const Address at = is_placed ? wanted : addresses_.take_segment(rounded);
  if (at == 0) {
    physical_.give_back(device, rounded);
    return 0;
  }
  Segments::Pages pages{device, shared, rounded, {}, physical_.new_backing(rounded)};
  if (!shared) pages.tenants.push_back({at, bytes});
  segments_.add_pages(at, std::move(pages));
  return at;
}

Status SimGpu::free_segment(uint32_t device, Address address) {
  if (const Status s = begin(Call::kFreeSegment); s != Status::kOk) return s;
  Address start = 0;
  const Segments::Pages* pages = segments_.find(address, &start);
  if (pages == nullptr || pages->device != device)
    return refuse(Call::kFreeSegment, Status::kInvalidValue);
  wait_until(Call::kFreeSegment, streams_.idle_at(device));
  const uint64_t bytes = pages->bytes;
  const int64_t cost_ns = costs_.free_segment.at(pages->shared ? 0 : bytes);
  if (segments_.drop(address)) {
    addresses_.give_back_segment(start);
    physical_.give_back(device, bytes);
  }
  return done(Call::kFreeSegment, cost_ns);
}

Status SimGpu::reserve(uint64_t bytes, Address* address) {
  if (const Status s = begin(Call::kReserve); s != Status::kOk) return s;
  if (!is_granular(bytes)) return refuse(Call::kReserve, Status::kInvalidValue);
  const Address at = addresses_.take_reservation(bytes);
  if (at == 0) return refuse(Call::kReserve, Status::kOutOfMemory);
  mappings_.add_reservation(at, bytes);
  *address = at;
  return done(Call::kReserve, costs_.reserve_ns);
}

Status SimGpu::unreserve(Address address, uint64_t bytes) {
  if (const Status s = begin(Call::kUnreserve); s != Status::kOk) return s;
  if (!mappings_.can_unreserve(address, bytes))
    return refuse(Call::kUnreserve, Status::kInvalidValue);
  mappings_.drop_reservation(address);
  addresses_.give_back_reservation(address);
  return done(Call::kUnreserve, costs_.unreserve_ns);
}

Status SimGpu::create(uint32_t device, uint64_t bytes, Handle* handle) {
  if (const Status s = begin(Call::kCreate); s != Status::kOk) return s;
  if (!is_device(device) || !is_granular(bytes))
    return refuse(Call::kCreate, Status::kInvalidValue);
  const Handle made = physical_.create(device, bytes);
  if (made == 0) return refuse(Call::kCreate, Status::kOutOfMemory);
  *handle = made;
  return done(Call::kCreate, costs_.create.at(bytes));
}

Status SimGpu::release(Handle handle) {
  if (const Status s = begin(Call::kRelease); s != Status::kOk) return s;
  const Physical::Piece* piece = physical_.find(handle);
  if (piece == nullptr) return refuse(Call::kRelease, Status::kInvalidValue);
  const int64_t cost_ns = costs_.release.at(piece->bytes);
  physical_.release(handle);
  return done(Call::kRelease, cost_ns);
}

Status SimGpu::map(Address address, uint64_t bytes, Handle handle) {
  if (const Status s = begin(Call::kMap); s != Status::kOk) return s;
  const Physical::Piece* piece = physical_.find(handle);
  if (piece == nullptr || piece->bytes != bytes || address % kGranularityBytes != 0 ||
      !mappings_.can_map(address, bytes))
    return refuse(Call::kMap, Status::kInvalidValue);
  mappings_.map(address, bytes, handle);
  physical_.add_mapping(handle);
  return done(Call::kMap, costs_.map_ns);
}

Status SimGpu::set_access(Address address, uint64_t bytes, uint32_t device) {
  if (const Status s = begin(Call::kSetAccess); s != Status::kOk) return s;
  if (!is_device(device) || !mappings_.is_whole(address, bytes))
    return refuse(Call::kSetAccess, Status::kInvalidValue);
  mappings_.set_access(address, bytes, device);
  int64_t cost_ns = 0;
  mappings_.for_each(address, bytes, [&](const Mappings::Mapping& mapping) {
    const int64_t alone_ns = costs_.set_access.at(mapping.bytes);
    const bool is_only = mapping.bytes == bytes;
    cost_ns += is_only ? alone_ns : std::max(alone_ns, costs_.set_access_of_many_ns);
  });
  return done(Call::kSetAccess, cost_ns);
}

Status SimGpu::unmap(Address address, uint64_t bytes) {
  if (const Status s = begin(Call::kUnmap); s != Status::kOk) return s;
  if (!mappings_.is_whole(address, bytes)) return refuse(Call::kUnmap, Status::kInvalidValue);
  int64_t cost_ns = 0;
  mappings_.for_each(address, bytes, [&](const Mappings::Mapping& mapping) {
    cost_ns += costs_.unmap.at(mapping.bytes);
    physical_.drop_mapping(mapping.handle, poison_on_unmap_);
  });
  mappings_.unmap(address, bytes);
  return done(Call::kUnmap, cost_ns);
}

Address SimGpu::predict_segment(uint64_t bytes) const { return addresses_.predict_segment(bytes); }

// What must always hold between SimGpu's parts; each part checks itself.

namespace {
// Empty, or what is wrong between handles and their mappings.
std::string check_mappings(const Physical& physical, const Mappings& mappings) {
  std::unordered_map<Handle, uint32_t> counts;
  for (const auto& [address, mapping] : mappings.all()) {
    const auto piece = physical.pieces().find(mapping.handle);
    if (piece == physical.pieces().end()) return "a mapping shows a handle that is no more";
    if (piece->second.bytes != mapping.bytes) return "a mapping is not as large as its handle";
    ++counts[mapping.handle];
  }
  for (const auto& [handle, piece] : physical.pieces()) {
    const auto count = counts.find(handle);
    if (piece.mappings != (count == counts.end() ? 0 : count->second))
      return "a handle miscounts its mappings";
    if (piece.released && piece.mappings == 0) return "a released handle without mappings lives";
  }
  return {};
}
}  // namespace

bool SimGpu::validate(std::string* why) const {
  if (!addresses_.validate(why) || !mappings_.validate(why) || !segments_.validate(why))
    return false;
  std::string wrong = check_mappings(physical_, mappings_);
  for (uint32_t device = 0; device < device_count(); ++device) {
    const uint64_t used = physical_.used_bytes(device);
    if (used != physical_.handle_bytes(device) + segments_.page_bytes(device))
      wrong = "used bytes are not those of the handles and segments";
    if (used > physical_.info(device).total_bytes) wrong = "more is used than there is";
  }
  if (why != nullptr && !wrong.empty()) *why = wrong;
  return wrong.empty();
}

// The calls of SimGpu that are about when, not where.

Status SimGpu::record(uint32_t device, StreamHandle stream, EventHandle* event) {
  if (const Status s = begin(Call::kRecord); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kRecord, Status::kInvalidValue);
  *event = streams_.record(device, stream, now_ns_);
  return done(Call::kRecord, costs_.record_ns);
}

Status SimGpu::query(EventHandle event) {
  if (const Status s = begin(Call::kQuery); s != Status::kOk) return s;
  const std::optional<int64_t> time_ns = streams_.happens_at(event);
  if (!time_ns) return refuse(Call::kQuery, Status::kInvalidValue);
  const Status status = *time_ns <= now_ns_ ? Status::kOk : Status::kNotReady;
  (void)done(Call::kQuery, costs_.query_ns);
  return status;
}

Status SimGpu::wait(EventHandle event) {
  if (const Status s = begin(Call::kWait); s != Status::kOk) return s;
  const std::optional<int64_t> time_ns = streams_.happens_at(event);
  if (!time_ns) return refuse(Call::kWait, Status::kInvalidValue);
  wait_until(Call::kWait, *time_ns);
  return done(Call::kWait, costs_.wait_ns);
}

Status SimGpu::stream_wait(uint32_t device, StreamHandle stream, EventHandle event) {
  if (const Status s = begin(Call::kStreamWait); s != Status::kOk) return s;
  const std::optional<int64_t> time_ns = streams_.happens_at(event);
  if (!is_device(device) || !time_ns) return refuse(Call::kStreamWait, Status::kInvalidValue);
  streams_.hold_until(device, stream, *time_ns);
  return done(Call::kStreamWait, costs_.stream_wait_ns);
}

Status SimGpu::destroy(EventHandle event) {
  if (const Status s = begin(Call::kDestroy); s != Status::kOk) return s;
  if (!streams_.destroy(event)) return refuse(Call::kDestroy, Status::kInvalidValue);
  return done(Call::kDestroy, costs_.destroy_ns);
}

Status SimGpu::synchronize(uint32_t device) {
  if (const Status s = begin(Call::kSynchronize); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kSynchronize, Status::kInvalidValue);
  wait_until(Call::kSynchronize, streams_.idle_at(device));
  return done(Call::kSynchronize, costs_.synchronize_ns);
}

Status SimGpu::enqueue(uint32_t device, StreamHandle stream, int64_t duration_ns) {
  if (!is_device(device) || duration_ns < 0) return Status::kInvalidValue;
  streams_.enqueue(device, stream, now_ns_, duration_ns);
  return Status::kOk;
}

void Streams::enqueue(uint32_t device, StreamHandle stream, int64_t now_ns, int64_t duration_ns) {
  int64_t& end = ends_[{device, stream}];
  end = std::max(end, now_ns) + duration_ns;
}

void Streams::hold_until(uint32_t device, StreamHandle stream, int64_t time_ns) {
  int64_t& end = ends_[{device, stream}];
  end = std::max(end, time_ns);
}

int64_t Streams::idle_at(uint32_t device) const {
  int64_t latest = 0;
  for (auto it = ends_.lower_bound({device, 0}); it != ends_.end() && it->first.first == device;
       ++it) {
    latest = std::max(latest, it->second);
  }
  return latest;
}

int64_t Streams::idle_at(uint32_t device, StreamHandle stream) const {
  const auto it = ends_.find({device, stream});
  return it == ends_.end() ? 0 : it->second;
}

EventHandle Streams::record(uint32_t device, StreamHandle stream, int64_t now_ns) {
  events_[++last_event_] = std::max(now_ns, idle_at(device, stream));
  return last_event_;
}

std::optional<int64_t> Streams::happens_at(EventHandle event) const {
  const auto it = events_.find(event);
  if (it == events_.end()) return std::nullopt;
  return it->second;
}

bool Streams::destroy(EventHandle event) { return events_.erase(event) == 1; }

}  // namespace vram::gpu
