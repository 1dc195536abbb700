// Plays PyTorch's own allocator (its stand-in) under the adapter's tap and the real libvram.so:
// tap_recording ADAPTER FILE. Device 0 has segments, of which one was there before the recording
// began, device 1 an expandable one.
#include "stand_ins.hpp"

#include <cstdio>
#include <dlfcn.h>

namespace {

using stand_in::cuda;
using stand_in::Entry;
using stand_in::trace;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kLarge = size_t{1} << 40;
constexpr size_t kSmall = size_t{2} << 40;
constexpr size_t kExpandable = size_t{3} << 40;

struct Part {
  size_t bytes;
  size_t requested;
  bool is_live;
};

void show(int device, size_t address, std::initializer_list<Part> parts) {
  auto& segment = cuda().snapshot.segments.emplace_back();
  segment.device = static_cast<c10::DeviceIndex>(device);
  segment.address = address;
  segment.is_expandable = address == kExpandable;
  for (const Part& part : parts) {
    auto& block = segment.blocks.emplace_back();
    block.size = part.bytes;
    block.requested_size = part.requested;
    block.allocated = block.active = part.is_live;
    segment.total_size += part.bytes;
  }
}

void free(int device, size_t address, size_t bytes) {
  trace(Entry::FREE_REQUESTED, device, address, bytes);
  trace(Entry::FREE_COMPLETED, device, address, bytes);
}

void play_segments() {
  trace(Entry::ALLOC, 0, kLarge + 4 * kMiB, 6 * kMiB - 1);
  trace(Entry::ALLOC, 0, kLarge + 10 * kMiB, 2 * kMiB);
  trace(Entry::SEGMENT_ALLOC, 0, kSmall, 2 * kMiB);
  trace(Entry::ALLOC, 0, kSmall, 700);
  free(0, kLarge + 4 * kMiB, 6 * kMiB - 1);
}

void play_expandable() {
  trace(Entry::SEGMENT_MAP, 1, kExpandable, 20 * kMiB);
  trace(Entry::ALLOC, 1, kExpandable, 15 * kMiB);
  trace(Entry::SEGMENT_MAP, 1, kExpandable + 20 * kMiB, 20 * kMiB);
  trace(Entry::ALLOC, 1, kExpandable + 15 * kMiB, 25 * kMiB);
  free(1, kExpandable, 15 * kMiB);
  free(1, kExpandable + 15 * kMiB, 25 * kMiB);
  trace(Entry::ALLOC, 1, kExpandable, 1000);
  trace(Entry::SEGMENT_UNMAP, 1, kExpandable + 20 * kMiB, 20 * kMiB);
}

}  // namespace

int main(int, char** arguments) {
  void* const adapter = dlopen(arguments[1], RTLD_NOW);
  if (adapter == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  const auto tap = reinterpret_cast<const char* (*)(int)>(dlsym(adapter, "vram_torch_tap"));
  const auto untap = reinterpret_cast<void (*)()>(dlsym(adapter, "vram_torch_untap"));

  if (vram_record_start(arguments[2], nullptr) != VRAM_OK) return 2;
  show(0, kLarge, {{4 * kMiB, 4 * kMiB - 100, true}, {16 * kMiB, 0, false}});
  if (tap(0) != nullptr) return 3;
  play_segments();
  play_expandable();
  cuda().snapshot.segments.clear();
  show(0, kLarge,
       {{4 * kMiB, 4 * kMiB - 100, true},
        {6 * kMiB, 0, false},
        {2 * kMiB, 2 * kMiB, true},
        {8 * kMiB, 0, false}});
  show(0, kSmall, {{1024, 700, true}, {2 * kMiB - 1024, 0, false}});
  show(1, kExpandable, {{1024, 1000, true}, {20 * kMiB - 1024, 0, false}});
  untap();
  trace(Entry::ALLOC, 0, kLarge + 4 * kMiB, 6 * kMiB);  // no longer recorded
  return vram_record_stop() == VRAM_OK ? 0 : 4;
}
