#include "explain/history/allocator_rules.hpp"

#include "replay/peers/torch_options.hpp"

namespace vram::explain {
namespace {

std::vector<bool> contexts_of_vram(const trace::Tables& tables) {
  std::vector<bool> contexts(tables.contexts.size());
  bool is_any = false;
  for (trace::ContextId id = 0; id < contexts.size(); ++id) {
    contexts[id] = replay::is_of_vram(tables, id);
    is_any = is_any || contexts[id];
  }
  return is_any ? contexts : std::vector<bool>();
}

}  // namespace

AllocatorRules rules_of(const trace::Trace& trace, trace::DeviceKind kind) {
  if (kind == trace::DeviceKind::kHost) return AllocatorRules({}, true);
  AllocatorRules rules(replay::recorded_torch(trace));
  rules.set_contexts_of_vram(contexts_of_vram(trace.tables));
  return rules;
}

}  // namespace vram::explain
