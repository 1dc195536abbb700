#include "gpu/sim/checked_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vram::gpu {
namespace {

constexpr size_t kMaxKeptViolations = 16;
// Segments have no handle: their address is one, far from the numbers of real ones.
constexpr Handle kSegmentHandle = Handle{1} << 63;

std::string name_of(const WorkOrder::Work& work) {
  return fmt::format("work {} of stream {}", work.number, work.stream);
}

}  // namespace

CheckedGpu::CheckedGpu(const SimOptions& options) : SimGpu(options) {
  order_.on_run([this](const WorkOrder::Work& work) { run(work); });
}

void CheckedGpu::report(std::string text) {
  ++violation_count_;
  if (violations_.size() < kMaxKeptViolations) violations_.push_back(std::move(text));
}

template <typename Visit>
void CheckedGpu::for_parts(const WorkOrder::Work& work, const Access& access, Visit visit) {
  for (uint64_t at = 0; at < access.bytes;) {
    const Address address = access.address + at;
    const auto next = mapped_.upper_bound(address);
    const auto found = next == mapped_.begin() ? mapped_.end() : std::prev(next);
    if (found == mapped_.end() || address - found->first >= found->second.bytes ||
        !found->second.is_accessible) {
      return report(fmt::format("{} touches {:#x}, where no memory is", name_of(work), address));
    }
    const uint64_t offset = address - found->first;
    const uint64_t bytes = std::min(access.bytes - at, found->second.bytes - offset);
    visit(Part{&found->second, address, offset, bytes});
    at += bytes;
  }
}

void CheckedGpu::work(StreamHandle stream, std::vector<Access> accesses, WorkOrder::Flag waits_for,
                      WorkOrder::Flag sets) {
  check_stream("work is queued", stream);
  const WorkOrder::Work& work = order_.enqueue(stream, std::move(accesses), waits_for, sets);
  for (const Access& access : work.accesses) {
    for_parts(work, access, [&](const Part& part) { note(work, access, part); });
  }
}

void CheckedGpu::note(const WorkOrder::Work& work, const Access& access, const Part& part) {
  part.mapped->named[work.slot] = work.number;
  Piece& piece = pieces_.at(part.mapped->handle);
  const Touch touch{work.stream, work.slot, work.number};
  piece.touches.update(part.offset, part.offset + part.bytes,
                       [&](uint64_t, uint64_t, Touches& touches) {
                         check_order(work, access, part, touches.writer, "writes");
                         if (access.is_write) {
                           for (const Touch& reader : touches.readers) {
                             check_order(work, access, part, reader, "reads");
                           }
                           return;
                         }
                         std::erase_if(touches.readers, [&](const Touch& reader) {
                           return reader.number <= work.clock[reader.slot];
                         });
                         touches.readers.push_back(touch);
                       });
  if (access.is_write) {
    piece.touches.assign(part.offset, part.offset + part.bytes, {.writer = touch, .readers = {}});
  }
}

void CheckedGpu::check_order(const WorkOrder::Work& work, const Access& access, const Part& part,
                             const Touch& before, const char* did) {
  if (before.number == 0 || before.number <= work.clock[before.slot]) return;
  report(
      fmt::format("{} {} {} bytes at {:#x} (handle {}, from byte {}) in no order with work {} of "
                  "stream {}, which {} them",
                  name_of(work), access.is_write ? "writes" : "reads", part.bytes, part.address,
                  part.mapped->handle, part.offset, before.number, before.stream, did));
}

void CheckedGpu::run(const WorkOrder::Work& work) {
  for (const Access& access : work.accesses) {
    for_parts(work, access, [&](const Part& part) {
      Spans<uint64_t>& tags = pieces_.at(part.mapped->handle).tags;
      const uint64_t end = part.offset + part.bytes;
      if (access.is_write) return tags.assign(part.offset, end, access.tag);
      tags.update(part.offset, end, [&](uint64_t from, uint64_t, uint64_t tag) {
        if (tag == access.tag) return;
        report(fmt::format("{} reads {} at {:#x} (handle {}, byte {}), where {} was written last",
                           name_of(work), tag, part.address + (from - part.offset),
                           part.mapped->handle, from, access.tag));
      });
    });
  }
}

void CheckedGpu::finish_work() {
  if (!order_.finish()) report("work waits for what never comes");
}

void CheckedGpu::check_stream(const char* call, StreamHandle stream) {
  if (!order_.has_ended(stream)) return;
  report(fmt::format("{} in stream {}, which has ended", call, stream));
}

void CheckedGpu::check_unused(const char* call, Address address, uint64_t bytes) {
  const auto end = mapped_.lower_bound(address + bytes);
  for (auto it = mapped_.lower_bound(address); it != end; ++it) {
    if (order_.is_known_done(it->second.named)) continue;
    report(
        fmt::format("{} of {} bytes at {:#x} (handle {}), although work that names them may be "
                    "unfinished",
                    call, it->second.bytes, it->first, it->second.handle));
  }
}

void CheckedGpu::add_mapping(Address address, uint64_t bytes, Handle handle) {
  mapped_[address] = {.bytes = bytes, .handle = handle};
  ++pieces_.at(handle).mappings;
}

void CheckedGpu::drop_mappings(Address address, uint64_t bytes) {
  const auto first = mapped_.lower_bound(address);
  const auto end = mapped_.lower_bound(address + bytes);
  for (auto it = first; it != end; ++it) {
    Piece& piece = pieces_.at(it->second.handle);
    if (--piece.mappings == 0 && piece.is_released) pieces_.erase(it->second.handle);
  }
  mapped_.erase(first, end);
}

Status CheckedGpu::alloc_segment(uint32_t device, uint64_t bytes, Address* address) {
  const Status status = SimGpu::alloc_segment(device, bytes, address);
  if (status != Status::kOk) return status;
  pieces_.emplace(kSegmentHandle | *address, Piece(bytes));
  add_mapping(*address, bytes, kSegmentHandle | *address);
  mapped_[*address].is_accessible = true;
  return status;
}

// It waits for all work.
Status CheckedGpu::free_segment(uint32_t device, Address address) {
  const Status status = SimGpu::free_segment(device, address);
  if (status != Status::kOk) return status;
  finish_work();
  order_.observe_all();
  pieces_.at(kSegmentHandle | address).is_released = true;
  drop_mappings(address, 1);
  return status;
}

Status CheckedGpu::create(uint32_t device, uint64_t bytes, Handle* handle) {
  const Status status = SimGpu::create(device, bytes, handle);
  if (status == Status::kOk) pieces_.emplace(*handle, Piece(bytes));
  return status;
}

Status CheckedGpu::release(Handle handle) {
  const Status status = SimGpu::release(handle);
  if (status != Status::kOk) return status;
  Piece& piece = pieces_.at(handle);
  piece.is_released = true;
  if (piece.mappings == 0) pieces_.erase(handle);
  return status;
}

Status CheckedGpu::map(Address address, uint64_t bytes, Handle handle) {
  const Status status = SimGpu::map(address, bytes, handle);
  if (status == Status::kOk) add_mapping(address, bytes, handle);
  return status;
}

// Of the one device: what it may touch already is not changed.
Status CheckedGpu::set_access(Address address, uint64_t bytes, uint32_t device) {
  const Status status = SimGpu::set_access(address, bytes, device);
  if (status != Status::kOk) return status;
  const auto end = mapped_.lower_bound(address + bytes);
  for (auto it = mapped_.lower_bound(address); it != end; ++it) {
    if (it->second.is_accessible && device == 0) continue;
    check_unused("change of access", it->first, it->second.bytes);
    it->second.is_accessible = it->second.is_accessible || device == 0;
  }
  return status;
}

Status CheckedGpu::unmap(Address address, uint64_t bytes) {
  const Status status = SimGpu::unmap(address, bytes);
  if (status != Status::kOk) return status;
  check_unused("unmap", address, bytes);
  drop_mappings(address, bytes);
  return status;
}

Status CheckedGpu::record(uint32_t device, StreamHandle stream, EventHandle* event) {
  check_stream("an event is recorded", stream);
  if (is_captured(stream)) return Status::kNotReady;
  const Status status = SimGpu::record(device, stream, event);
  if (status == Status::kOk) order_.record(stream, *event);
  return status;
}

Status CheckedGpu::query(EventHandle event) {
  const Status status = SimGpu::query(event);
  if (status != Status::kOk) return status;
  return order_.query(event) ? Status::kOk : Status::kNotReady;
}

Status CheckedGpu::wait(EventHandle event) {
  const Status status = SimGpu::wait(event);
  if (status != Status::kOk) return status;
  while (!order_.query(event)) {
    if (!order_.step(0)) finish_work();
  }
  return status;
}

Status CheckedGpu::stream_wait(uint32_t device, StreamHandle stream, EventHandle event) {
  check_stream("a wait is queued", stream);
  if (is_captured(stream)) return Status::kNotReady;
  const Status status = SimGpu::stream_wait(device, stream, event);
  if (status == Status::kOk) order_.wait(stream, event);
  return status;
}

Status CheckedGpu::destroy(EventHandle event) {
  const Status status = SimGpu::destroy(event);
  if (status == Status::kOk) order_.destroy(event);
  return status;
}

Status CheckedGpu::synchronize(uint32_t device) {
  if (order_.is_any_captured()) {
    report("the device is waited for while a stream is captured");
    return Status::kNotReady;
  }
  const Status status = SimGpu::synchronize(device);
  if (status != Status::kOk) return status;
  finish_work();
  order_.observe_all();
  return status;
}

}  // namespace vram::gpu
