// ScopePath: the part of a training step and the owner in a path of scopes
// ("forward/layers.7.mlp"). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace vram::explain {

enum class StepPart : uint8_t { kNone, kForward, kRecompute, kBackward, kOptimizer };

struct ScopePath {
  StepPart part = StepPart::kNone;
  std::string_view owner;  // "layers.7.mlp"; without an owner in the path, the part: "forward"
  // A block that is alive when this (a beginning of the path) is left was made to stay.
  std::string_view extent;
};

[[nodiscard]] ScopePath parse_scope_path(std::string_view path);

// Is `path` the scope or within it?
[[nodiscard]] bool is_within(std::string_view path, std::string_view scope);

}  // namespace vram::explain
