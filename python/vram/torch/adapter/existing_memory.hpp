// What PyTorch's own allocator holds and how it is set up, said to vram's recorder when a recording
// begins after the program. Part of tap.hpp.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdint>
#include <string>
#include <vram/record.h>

namespace vram_torch {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;
using torch_cuda::CUDAAllocator;

// A snapshot without the history that the program may keep, where this version can leave it out.
template <class Native>
auto native_snapshot(Native& native, int) -> decltype(native.snapshot({0, 0}, false)) {
  return native.snapshot({0, 0}, false);
}
template <class Native>
torch_cuda::SnapshotInfo native_snapshot(Native& native, long) {
  return native.snapshot();
}

// PyTorch's trace says how many bytes were asked for, and readers deduce the block's size from it.
// A block that was given whole, as too little would have been left over, shows its size here.
template <class Block>
uint64_t recorded_bytes(const Block& block) {
  constexpr uint64_t kRounding = 512;
  const uint64_t rounded = (block.requested_size + kRounding - 1) / kRounding * kRounding;
  return rounded == block.size ? block.requested_size : block.size;
}

// Of the segment; its blocks' are made of it.
template <class Segment>
vram_event event_of(const Segment& segment, vram_event_kind kind) {
  vram_event event{};
  event.kind = kind;
  event.device = static_cast<int>(segment.device);
  event.address = static_cast<uint64_t>(segment.address);
  event.size_bytes = segment.total_size;
  event.stream = reinterpret_cast<vram_stream>(segment.stream);
  return event;
}

template <class Segment>
void record_found(const Segment& segment) {
  vram_event event =
      event_of(segment, segment.is_expandable ? VRAM_EVENT_SEGMENT_MAP : VRAM_EVENT_SEGMENT_ALLOC);
  vram_record_event(&event);
  for (const auto& block : segment.blocks) {
    event.size_bytes = recorded_bytes(block);
    event.kind = VRAM_EVENT_FOUND;
    if (block.active) vram_record_event(&event);
    event.kind = VRAM_EVENT_FREE_REQUESTED;
    if (block.active && !block.allocated) vram_record_event(&event);
    event.address += block.size;
  }
}

template <class Segments>
void record_held(const Segments& segments) {
  for (const auto& segment : segments) {
    vram_event event = event_of(segment, VRAM_EVENT_HELD_SEGMENT);
    vram_record_event(&event);
    for (const auto& block : segment.blocks) {
      event.kind = block.allocated ? VRAM_EVENT_HELD_BLOCK
                   : block.active  ? VRAM_EVENT_HELD_PENDING
                                   : VRAM_EVENT_HELD_FREE;
      event.size_bytes = block.size;
      vram_record_event(&event);
      event.address += block.size;
    }
  }
}

// By the names that PyTorch's own snapshots have.
template <class Config>
void record_settings(const Config& config) {
  const auto record_setting = [](const std::string& key, const std::string& value) {
    vram_record_setting(key.c_str(), value.c_str());
  };
  record_setting("PYTORCH_CUDA_ALLOC_CONF", config.last_allocator_settings);
  record_setting("expandable_segments", config.expandable_segments ? "True" : "False");
  record_setting("garbage_collection_threshold",
                 std::to_string(config.garbage_collection_threshold));
  record_setting("max_split_size", std::to_string(static_cast<int64_t>(config.max_split_size)));
  uint64_t mebibytes = 1;
  for (const auto divisions : config.roundup_power2_divisions) {
    record_setting("roundup_power2_divisions." + std::to_string(mebibytes),
                   std::to_string(divisions));
    mebibytes *= 2;
  }
}

}  // namespace vram_torch
