// SimGpu's contents, where it has any.
#include "gpu/sim/sim_gpu.hpp"

#include <algorithm>
#include <cstring>

namespace vram::gpu {

SimGpu::Run SimGpu::run_at(uint32_t device, Address address) const {
  Address start = 0;
  if (const Mappings::Mapping* mapping = mappings_.find(address, &start)) {
    if (!mapping->is_visible_to(device)) return {};
    const uint64_t offset = address - start;
    return {physical_.piece(mapping->handle).backing.at(offset), mapping->bytes - offset};
  }
  Segments::Tenant segment;
  const Segments::Pages* pages = segments_.find_inside(address, &start, &segment);
  if (pages == nullptr || pages->device != device) return {};
  return {pages->backing.at(address - start), segment.address + segment.bytes - address};
}

// Twice over the range: all of it must be there before any of it is copied.
template <typename Copy>
Status SimGpu::for_runs(uint32_t device, Address address, uint64_t bytes, Copy copy) const {
  if (!backing_) return Status::kNotSupported;
  for (const bool is_copying : {false, true}) {
    for (uint64_t at = 0; at < bytes;) {
      const Run run = run_at(device, address + at);
      if (run.count == 0) return Status::kFault;
      const uint64_t count = std::min(run.count, bytes - at);
      if (is_copying) copy(run.bytes, at, count);
      at += count;
    }
  }
  return Status::kOk;
}

Status SimGpu::read(uint32_t device, Address address, std::span<std::byte> out) const {
  return for_runs(device, address, out.size(),
                  [&](const std::byte* from, uint64_t at, uint64_t count) {
                    std::memcpy(out.data() + at, from, count);
                  });
}

Status SimGpu::write(uint32_t device, Address address, std::span<const std::byte> bytes) {
  return for_runs(device, address, bytes.size(), [&](std::byte* to, uint64_t at, uint64_t count) {
    std::memcpy(to, bytes.data() + at, count);
  });
}

}  // namespace vram::gpu
