#include "explain/names/scope_path.hpp"

#include <algorithm>

namespace vram::explain {
namespace {

StepPart part_of(std::string_view component) {
  if (component == "forward") return StepPart::kForward;
  if (component == "recompute") return StepPart::kRecompute;
  if (component == "backward") return StepPart::kBackward;
  if (component == "optimizer") return StepPart::kOptimizer;
  return StepPart::kNone;
}

}  // namespace

// The innermost part counts: scopes of modules nest, each with its part in front. But what runs
// forward within backward is recomputed.
ScopePath parse_scope_path(std::string_view path) {
  ScopePath found;
  bool is_in_backward = false;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const StepPart part = part_of(path.substr(begin, end - begin));
    if (part != StepPart::kNone) {
      const bool stays_long = part == StepPart::kBackward || part == StepPart::kOptimizer;
      const bool is_same = part == found.part && stays_long;
      if (!is_same) found.extent = stays_long ? path.substr(0, end) : path;
      found.part = part == StepPart::kForward && is_in_backward ? StepPart::kRecompute : part;
      found.owner = path.substr(std::min(end + 1, path.size()));
      if (found.owner.empty()) found.owner = path.substr(begin, end - begin);
      is_in_backward = is_in_backward || part == StepPart::kBackward;
    }
    begin = end + 1;
  }
  return found;
}

bool is_within(std::string_view path, std::string_view scope) {
  return path.starts_with(scope) && (path.size() == scope.size() || path[scope.size()] == '/');
}

}  // namespace vram::explain
