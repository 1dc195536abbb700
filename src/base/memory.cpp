#include "base/memory.hpp"

#include "base/bytes.hpp"

#include <algorithm>
#include <unistd.h>

namespace vram {

uint64_t most_of_the_memory_bytes() {
  const auto pages = static_cast<uint64_t>(std::max<long>(0, sysconf(_SC_PHYS_PAGES)));
  const auto page_bytes = static_cast<uint64_t>(std::max<long>(0, sysconf(_SC_PAGESIZE)));
  return std::max(pages * page_bytes / 5 * 4, 512 * kMiB);
}

}  // namespace vram
