// Names: the program's names for its memory, for each block's whole life: a name given to an
// address (vram_name), else a category derived from the scope of the block's allocation and its
// lifetime. Read from the tables and events of one device; recordings without names and scopes cost
// one check of the tables. docs/names.md has the rules.
#pragma once

#include "explain/history/history.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::explain {

enum class Category : uint8_t {
  kOther,  // neither named nor allocated in a scope of a known part
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kTemporary
};

// "parameter", "optimizer state", "other", ...
[[nodiscard]] std::string_view to_string(Category category);

class Names {
 public:
  using Label = uint32_t;  // 0: the block has none

  // Does any block have a label?
  [[nodiscard]] bool has_labels() const { return labels_.size() > 1; }
  // Was any block allocated in a scope?
  [[nodiscard]] bool has_paths() const { return has_paths_; }

  // Of a lifetime, by its number in the history.
  [[nodiscard]] Label label(uint32_t lifetime) const {
    return lifetime < label_of_.size() ? label_of_[lifetime] : 0;
  }
  // "layers.7.mlp · activation"
  [[nodiscard]] const std::string& text(Label label) const { return labels_[label].text; }
  [[nodiscard]] Category category(uint32_t lifetime) const {
    return labels_[label(lifetime)].category;
  }

 private:
  friend class Namer;
  struct Text {
    std::string text;
    Category category = Category::kOther;
  };
  std::vector<Text> labels_ = {{}};
  std::vector<Label> label_of_;  // by lifetime
  bool has_paths_ = false;
};

// O(n log n) in the events, if there are names or scopes.
[[nodiscard]] Names find_names(const trace::Trace& trace, const trace::DeviceTrace& device,
                               const History& history);

// ScopePath: the part of a training step and the owner in a path of scopes
// ("forward/layers.7.mlp"). Pure.

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

// ScopeEnds: when the scope of an allocation ended, derived from the scope paths of the events: at
// the first later event outside it. So it works for every recording whose events have scopes, also
// without threads and clocks. Linear in the events; empty if no path contains a part of a step.
class ScopeEnds {
 public:
  ScopeEnds(const trace::Tables& tables, std::span<const trace::Event> events);

  [[nodiscard]] const ScopePath& path(trace::ContextId context) const { return paths_[context]; }
  // The first later event outside the extent of the event's path, or the number of events. 0 if the
  // path contains no part.
  [[nodiscard]] uint32_t end_of(uint32_t event) const { return ends_.empty() ? 0 : ends_[event]; }

 private:
  void find_ends(const trace::Tables& tables, std::span<const trace::Event> events);

  std::vector<ScopePath> paths_;  // by ContextId
  std::vector<uint32_t> ends_;    // by event
};

// Names that the program gave to addresses, each with the block that contained the address then.

struct NamedBlock {
  uint32_t lifetime = 0;
  trace::ContextId context = 0;  // user_metadata is the name, category its category
  uint64_t size_bytes = 0;
};

// One a block: the name of most bytes in it, of such as large the last. In order of lifetimes.
[[nodiscard]] std::vector<NamedBlock> named_blocks(const trace::Tables& tables,
                                                   std::span<const trace::Event> events,
                                                   const History& history);

}  // namespace vram::explain
