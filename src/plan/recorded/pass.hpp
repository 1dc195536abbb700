// Pass: a forward pass and the backward pass after it, in the events of one device. Found by the
// scopes of modules (docs/watch.md), which are in the contexts of events.
#pragma once

#include "explain/names/names.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vram::plan {

// Events [first, backward) are forward, [backward, end) backward.
struct Pass {
  uint32_t first = 0;
  uint32_t backward = 0;
  uint32_t end = 0;
  bool recomputes = false;  // a module ran forward during backward
};

// The part of the step and the module of each event. Views the tables.
class ModuleScopes {
 public:
  explicit ModuleScopes(const trace::Tables& tables);

  [[nodiscard]] explain::StepPart part(const trace::Event& event) const {
    return is_name(event) ? explain::StepPart::kNone : paths_[event.context].part;
  }
  // "transformer.h.0.mlp"; "loss"; empty outside every part.
  [[nodiscard]] std::string_view module(const trace::Event& event) const {
    return is_name(event) ? std::string_view() : modules_[event.context];
  }

 private:
  // The context of an annotation is the name of memory, not a scope.
  [[nodiscard]] static bool is_name(const trace::Event& event) {
    return event.kind == trace::EventKind::kAnnotate;
  }
  std::vector<explain::ScopePath> paths_;  // by ContextId
  std::vector<std::string_view> modules_;  // by ContextId
};

// In order. Forward passes without a backward pass are left out. Linear in the events.
[[nodiscard]] std::vector<Pass> find_passes(const ModuleScopes& scopes,
                                            std::span<const trace::Event> events);

}  // namespace vram::plan
