#include "replay/segment_source.hpp"

#include "base/result.hpp"

#include <utility>

namespace vram::replay {
namespace {

constexpr uint32_t kDevice = 0;

// What a correct caller is never refused.
void must(gpu::Status status) { VRAM_CHECK(status == gpu::Status::kOk); }

}  // namespace

const DriverCall* SegmentSource::recorded_next() const {
  if (!is_logging_ || !follows_recording_) return nullptr;
  if (log_.size() >= program_.recorded_calls.size()) return nullptr;
  return &program_.recorded_calls[log_.size()];
}

void SegmentSource::note(DriverCall::Kind kind, uint64_t bytes, uint64_t address) {
  if (!is_logging_) return;
  const DriverCall* recorded = recorded_next();
  follows_recording_ = recorded != nullptr && recorded->kind == kind &&
                       recorded->size_bytes == bytes &&
                       (kind != DriverCall::Kind::kFree || recorded->address == address);
  if (follows_recording_) ++matched_calls_;
  log_.push_back({kind, bytes, address, event_});
}

uint64_t SegmentSource::take_initial(const InitialSegment& segment) {
  gpu::Address address = 0;
  gpu_.place_next_segment(segment.address);
  const gpu::Status status = gpu_.alloc_segment(kDevice, segment.size_bytes, &address);
  gpu_.place_next_segment(0);
  return status == gpu::Status::kOk ? address : 0;
}

uint64_t SegmentSource::take(uint64_t bytes) {
  const DriverCall* recorded = recorded_next();
  if (recorded != nullptr && recorded->kind == DriverCall::Kind::kAlloc &&
      recorded->size_bytes == bytes && !ignores_addresses_) {
    gpu_.place_next_segment(recorded->address);
  }
  gpu::Address address = 0;
  const gpu::Status status = gpu_.alloc_segment(kDevice, bytes, &address);
  gpu_.place_next_segment(0);
  if (status != gpu::Status::kOk) return 0;
  note(DriverCall::Kind::kAlloc, bytes, address);
  return address;
}

void SegmentSource::give_back(uint64_t address, uint64_t bytes) {
  must(gpu_.free_segment(kDevice, address));
  note(DriverCall::Kind::kFree, bytes, address);
}

uint64_t SegmentSource::reserve(uint64_t bytes) {
  gpu::Address address = 0;
  return gpu_.reserve(bytes, &address) == gpu::Status::kOk ? address : 0;
}

void SegmentSource::unreserve(uint64_t address, uint64_t bytes) {
  must(gpu_.unreserve(address, bytes));
}

// As PyTorch does it: all handles first, then each mapped, then access.
bool SegmentSource::map(uint64_t address, uint64_t bytes, uint64_t granule_bytes, Access access) {
  for (uint64_t offset = 0; offset < bytes; offset += granule_bytes) {
    gpu::Handle handle = 0;
    if (gpu_.create(kDevice, granule_bytes, &handle) != gpu::Status::kOk) {
      drop_granules(address, offset, granule_bytes);
      return false;
    }
    handles_[address + offset] = handle;
  }
  for (uint64_t offset = 0; offset < bytes; offset += granule_bytes) {
    must(gpu_.map(address + offset, granule_bytes, handles_[address + offset]));
  }
  give_access(address, bytes, granule_bytes, access);
  note(DriverCall::Kind::kMap, bytes, address);
  return true;
}

void SegmentSource::give_access(uint64_t address, uint64_t bytes, uint64_t granule_bytes,
                                Access access) {
  const uint64_t step = access == Access::kOneCall ? bytes : granule_bytes;
  for (uint64_t offset = 0; offset < bytes; offset += step) {
    must(gpu_.set_access(address + offset, step, kDevice));
  }
}

void SegmentSource::unmap(uint64_t address, uint64_t bytes, uint64_t granule_bytes) {
  for (uint64_t offset = 0; offset < bytes; offset += granule_bytes) {
    must(gpu_.unmap(address + offset, granule_bytes));
  }
  drop_granules(address, bytes, granule_bytes);
  note(DriverCall::Kind::kUnmap, bytes, address);
}

void SegmentSource::move(uint64_t from, uint64_t to, uint64_t granule_bytes) {
  must(gpu_.unmap(from, granule_bytes));
  auto handle = handles_.extract(from);
  must(gpu_.map(to, granule_bytes, handle.mapped()));
  must(gpu_.set_access(to, granule_bytes, kDevice));
  handle.key() = to;
  handles_.insert(std::move(handle));
}

void SegmentSource::alias(uint64_t from, uint64_t to, uint64_t bytes, uint64_t granule_bytes) {
  for (uint64_t offset = 0; offset < bytes; offset += granule_bytes) {
    must(gpu_.map(to + offset, granule_bytes, handles_[from + offset]));
  }
  give_access(to, bytes, granule_bytes, Access::kEachGranule);
}

void SegmentSource::drop_aliases(uint64_t address, uint64_t bytes) {
  must(gpu_.unmap(address, bytes));
}

void SegmentSource::drop_granules(uint64_t address, uint64_t bytes, uint64_t granule_bytes) {
  for (uint64_t offset = 0; offset < bytes; offset += granule_bytes) {
    const auto found = handles_.find(address + offset);
    must(gpu_.release(found->second));
    handles_.erase(found);
  }
}

}  // namespace vram::replay
