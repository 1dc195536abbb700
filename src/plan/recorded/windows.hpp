// Windows: which events of a pass belong to the forward and to the backward of which stage. Stages
// follow one another, so each has one window of each kind.
#pragma once

#include "base/result.hpp"
#include "explain/names/names.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::plan {

// Pass: a forward pass and the backward pass after it, in the events of one device. Found by the
// scopes of modules (docs/watch.md), which are in the contexts of events.

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

inline constexpr std::string_view kStageBefore = "before";
inline constexpr std::string_view kStageAfter = "after";

struct Windows {
  std::vector<std::string> stages;  // modules in the order of forward, with "before" and "after"
  // Of stage i, forward begins at begins[i], and backward at begins[2 * stages - 1 - i]. The last
  // of the 2 * stages + 1 numbers is the end of the pass.
  std::vector<uint32_t> begins;
};

// `pattern` names the modules that are stages: '*' stands for any text without a dot. If it is
// empty, they are the elements of the longest list of modules (h.0, h.1, ...) in which at least
// half of the forward pass's bytes are allocated. Fails if there is no such list, if the modules do
// not run one after the other, or if one of them has no backward.
[[nodiscard]] Result<Windows> find_windows(const ModuleScopes& scopes,
                                           std::span<const trace::Event> events, const Pass& pass,
                                           std::string_view pattern);

}  // namespace vram::plan
