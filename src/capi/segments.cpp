// The addresses of a dry run's segments: what the simulated GPU's model of the driver gives.
#include "gpu/sim/address_space.hpp"

#include <new>
#include <vram/record.h>

struct vram_segments {
  vram::gpu::AddressSpace space;
};

vram_segments* vram_segments_open() try {
  return new vram_segments;
} catch (const std::bad_alloc&) {
  return nullptr;
}

uint64_t vram_segments_place(vram_segments* segments, uint64_t size_bytes) try {
  return segments->space.take_segment(size_bytes);
} catch (const std::bad_alloc&) {
  return 0;
}

void vram_segments_remove(vram_segments* segments, uint64_t address) {
  segments->space.give_back_segment(address);
}

void vram_segments_close(vram_segments* segments) { delete segments; }
