#include "explain/names/scope_ends.hpp"

#include <algorithm>

namespace vram::explain {
namespace {

// Names lie in the place of paths there.
bool has_path(const trace::Event& event) { return event.kind != trace::EventKind::kAnnotate; }

}  // namespace

ScopeEnds::ScopeEnds(const trace::Tables& tables, std::span<const trace::Event> events) {
  for (trace::ContextId id = 0; id < tables.contexts.size(); ++id)
    paths_.push_back(parse_scope_path(tables.strings[tables.contexts[id].user_metadata]));
  const bool is_any = std::ranges::any_of(
      paths_, [](const ScopePath& path) { return path.part != StepPart::kNone; });
  if (is_any) find_ends(tables, events);
}

// From the last event to the first, so that what lies within an extent is stepped over at once.
void ScopeEnds::find_ends(const trace::Tables& tables, std::span<const trace::Event> events) {
  const auto count = static_cast<uint32_t>(events.size());
  ends_.assign(count, 0);
  for (uint32_t i = count; i-- > 0;) {
    const ScopePath& scope = paths_[events[i].context];
    if (scope.part == StepPart::kNone || !has_path(events[i])) continue;
    uint32_t end = i + 1;
    while (end < count) {
      const trace::Event& next = events[end];
      if (!has_path(next)) {
        ++end;
        continue;
      }
      if (!is_within(tables.strings[tables.contexts[next.context].user_metadata], scope.extent))
        break;
      const ScopePath& inner = paths_[next.context];
      const bool is_inside = inner.part != StepPart::kNone && is_within(inner.extent, scope.extent);
      end = is_inside ? ends_[end] : end + 1;
    }
    ends_[i] = end;
  }
}

}  // namespace vram::explain
