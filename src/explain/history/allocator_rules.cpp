#include "explain/history/allocator_rules.hpp"

#include "replay/peers/torch_options.hpp"

namespace vram::explain {

AllocatorRules rules_of(const trace::Trace& trace, trace::DeviceKind kind) {
  if (kind == trace::DeviceKind::kHost) return AllocatorRules({}, true);
  return AllocatorRules(replay::recorded_torch(trace));
}

}  // namespace vram::explain
