#include "plan/recorded/pass.hpp"

#include <optional>

namespace vram::plan {

using explain::StepPart;

ModuleScopes::ModuleScopes(const trace::Tables& tables) {
  for (trace::ContextId id = 0; id < tables.contexts.size(); ++id) {
    const explain::ScopePath& path = paths_.emplace_back(
        explain::parse_scope_path(tables.strings[tables.contexts[id].user_metadata]));
    // The outermost module has no name of its own: "GPT/head" is the module head.
    const std::string_view owner = path.part == StepPart::kNone ? "" : path.owner;
    modules_.push_back(owner.substr(owner.rfind('/') + 1));
  }
}

std::vector<Pass> find_passes(const ModuleScopes& scopes, std::span<const trace::Event> events) {
  std::vector<Pass> passes;
  std::optional<Pass> open;
  const auto close = [&] {
    if (open && open->end > open->backward) passes.push_back(*open);
    open.reset();
  };
  for (uint32_t i = 0; i < events.size(); ++i) {
    const StepPart part = scopes.part(events[i]);
    const bool has_backward = open && open->end > 0;
    if (part == StepPart::kOptimizer || (part == StepPart::kForward && has_backward)) close();
    if (part == StepPart::kForward && !open) open = Pass{.first = i};
    if (!open || (part != StepPart::kBackward && part != StepPart::kRecompute)) continue;
    if (open->end == 0) open->backward = i;
    open->end = i + 1;
    open->recomputes = open->recomputes || part == StepPart::kRecompute;
  }
  close();
  return passes;
}

}  // namespace vram::plan
