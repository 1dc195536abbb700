#include "replay/live_peak.hpp"

#include "replay/refusals.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace vram::replay {

uint64_t peak_live_bytes(const Program& program) {
  std::vector<uint64_t> sizes(program.block_count, 0);
  uint64_t live = 0;
  uint64_t peak = 0;
  const size_t caught_until = ops_until_last_allocation(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    switch (op.kind) {
      case OpKind::kAlloc:
        sizes[op.block] = op.size_bytes;
        live += op.size_bytes;
        peak = std::max(peak, live);
        break;
      case OpKind::kRefused:
        if (i >= caught_until) peak = std::max(peak, live + op.size_bytes);
        break;
      case OpKind::kFree:
      case OpKind::kFreeLater:
        live -= std::exchange(sizes[op.block], 0);
        break;
      case OpKind::kComplete:
      case OpKind::kEmptyCache:
      case OpKind::kGivenBack:
        break;
    }
  }
  return peak;
}

}  // namespace vram::replay
