// Plays PyTorch's own allocator (its stand-in) under the adapter's tap and the real libvram.so:
// tap_recording ADAPTER FILE. Segments of 20 MiB; what happens before the recording begins is
// found.
#include "stand_ins.hpp"

#include <cstdio>
#include <dlfcn.h>

namespace {

using stand_in::cuda;
using stand_in::Entry;
using stand_in::trace;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kBase = size_t{1} << 40;

struct Part {
  size_t bytes;
  size_t requested;
  bool is_live;
};

void show(std::initializer_list<Part> parts) {
  auto& segments = cuda().snapshot.segments;
  segments.assign(1, {});
  segments[0].address = kBase;
  segments[0].total_size = 20 * kMiB;
  for (const Part& part : parts) {
    auto& block = segments[0].blocks.emplace_back();
    block.size = part.bytes;
    block.requested_size = part.requested;
    block.allocated = block.active = part.is_live;
  }
}

}  // namespace

int main(int, char** arguments) {
  void* const adapter = dlopen(arguments[1], RTLD_NOW);
  if (adapter == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  const auto tap = reinterpret_cast<const char* (*)(int)>(dlsym(adapter, "vram_torch_tap"));
  const auto untap = reinterpret_cast<void (*)()>(dlsym(adapter, "vram_torch_untap"));

  if (vram_record_start(arguments[2], nullptr) != VRAM_OK) return 2;
  show({{4 * kMiB, 4 * kMiB - 100, true}, {16 * kMiB, 0, false}});
  if (tap(0) != nullptr) return 3;
  trace(Entry::ALLOC, 0, kBase + 4 * kMiB, 6 * kMiB - 1);
  trace(Entry::ALLOC, 0, kBase + 10 * kMiB, 2 * kMiB);
  trace(Entry::FREE_REQUESTED, 0, kBase + 4 * kMiB, 6 * kMiB - 1);
  trace(Entry::FREE_COMPLETED, 0, kBase + 4 * kMiB, 6 * kMiB - 1);
  show({{4 * kMiB, 4 * kMiB - 100, true},
        {6 * kMiB, 0, false},
        {2 * kMiB, 2 * kMiB, true},
        {8 * kMiB, 0, false}});
  untap();
  trace(Entry::ALLOC, 0, kBase + 4 * kMiB, 6 * kMiB);  // no longer recorded
  return vram_record_stop() == VRAM_OK ? 0 : 4;
}
