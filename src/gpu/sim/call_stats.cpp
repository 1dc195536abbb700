#include "gpu/sim/call_stats.hpp"

namespace vram::gpu {

uint64_t CallStats::count() const {
  uint64_t sum = 0;
  for (const One& one : calls) sum += one.count;
  return sum;
}

int64_t CallStats::time_ns() const {
  int64_t sum = 0;
  for (const One& one : calls) sum += one.time_ns;
  return sum;
}

}  // namespace vram::gpu
