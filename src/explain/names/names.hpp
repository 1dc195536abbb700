// Names: the program's names for its memory, for each block's whole life: a name given to an
// address (vram_name), else a category derived from the scope of the block's allocation and its
// lifetime. Read from the tables and events of one device; recordings without names and scopes cost
// one check of the tables. docs/names.md has the rules.
#pragma once

#include "explain/history/history.hpp"
#include "trace/trace.hpp"

#include <cstdint>
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

}  // namespace vram::explain
