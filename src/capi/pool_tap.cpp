#include "capi/pool_tap.hpp"

#include "record/threads.hpp"
#include "trace/event.hpp"

namespace vram::capi {

using record::Op;
using record::Recorder;

void PoolTap::write_event(Op op, uint64_t address, uint64_t bytes, uint64_t stream,
                          record::StackId stack) const {
  Recorder::emit({.address = address,
                  .size_bytes = bytes,
                  .stream = stream,
                  .stack = stack,
                  .scope = record::ScopeStack::current(),
                  .device = device_,
                  .op = op});
}

void PoolTap::record_allocated(uint64_t address, uint64_t bytes, uint64_t stream,
                               record::StackId stack) {
  if (address == 0)
    return write_event(Op::kOom, pool_.last_oom().device_free_bytes, bytes, stream, stack);
  pool_.report_parts(address, *this);
  write_event(Op::kAlloc, address, bytes, stream, stack);
}

void PoolTap::record_freeing(uint64_t address) { write_event(Op::kFree, address); }

void PoolTap::record_used_by(uint64_t address, uint64_t stream) {
  write_event(Op::kUse, address, 0, stream);
}

void PoolTap::record_memory(Op op, uint64_t address, uint64_t bytes, uint64_t block) const {
  static const record::TextId kOurs = record::stores().texts.intern(trace::kVramPool);
  Recorder::emit({.address = address,
                  .size_bytes = bytes,
                  .stream = block,
                  .scope = record::ScopeStack::current(),
                  .text = kOurs,
                  .device = device_,
                  .op = op});
}

void PoolTap::mapped(uint64_t address, uint64_t bytes) {
  record_memory(Op::kSegmentMap, address, bytes);
}
void PoolTap::unmapped(uint64_t address, uint64_t bytes) {
  record_memory(Op::kSegmentUnmap, address, bytes);
}
void PoolTap::finished(uint64_t block) { write_event(Op::kFreeCompleted, block); }

void PoolTap::found_mapped(uint64_t address, uint64_t bytes) {
  record_memory(Op::kSegmentFound, address, bytes);
}

// The record has the block that it belongs to in place of the stream.
void PoolTap::part(uint64_t block, uint64_t home, uint64_t bytes) {
  record_memory(Op::kPart, home, bytes, block);
}

void PoolTap::found_block(uint64_t address, uint64_t requested_bytes, uint64_t stream,
                          pool::Found state) {
  write_event(Op::kFound, address, requested_bytes, stream);
  // By which other stream does not matter.
  if (state == pool::Found::kShared) write_event(Op::kUse, address, 0, stream + 1);
  if (state == pool::Found::kHeld) write_event(Op::kFreeRequested, address);
}

}  // namespace vram::capi
