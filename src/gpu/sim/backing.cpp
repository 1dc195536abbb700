#include "gpu/sim/backing.hpp"

#include <algorithm>

namespace vram::gpu {

Backing Backing::poisoned(uint64_t bytes) {
  Backing backing;
  backing.bytes_.reset(new std::byte[bytes]);  // not make_unique: it would write zeros first
  backing.size_bytes_ = bytes;
  backing.poison();
  return backing;
}

void Backing::poison(uint64_t offset, uint64_t bytes) {
  std::fill_n(bytes_.get() + offset, bytes, kPoison);
}

}  // namespace vram::gpu
