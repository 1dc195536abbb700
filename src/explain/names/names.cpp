#include "explain/names/names.hpp"

#include "explain/names/named_blocks.hpp"
#include "explain/names/scope_ends.hpp"
#include "explain/names/scope_path.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace vram::explain {
namespace {

constexpr std::array<std::string_view, 6> kCategories = {
    "other", "parameter", "gradient", "optimizer state", "activation", "temporary"};

Category category_called(std::string_view text) {
  const auto found = std::ranges::find(kCategories, text);
  return found == kCategories.end() ? Category::kOther
                                    : static_cast<Category>(found - kCategories.begin());
}

// What is made in a part of a step, and stays after the scope it was made in.
Category category_of(StepPart part, bool stays) {
  if (!stays) return Category::kTemporary;
  switch (part) {
    case StepPart::kForward:
    case StepPart::kRecompute:
      return Category::kActivation;
    case StepPart::kBackward:
      return Category::kGradient;
    case StepPart::kOptimizer:
      return Category::kOptimizerState;
    case StepPart::kNone:
      break;
  }
  return Category::kOther;
}

uint32_t freed_at(const Lifetime& lifetime) {
  return std::min(lifetime.free_requested_event, lifetime.free_completed_event);
}

std::string joined(std::string_view name, std::string_view category) {
  if (name.empty() || category.empty()) return std::string(name.empty() ? category : name);
  return std::string(name) + " · " + std::string(category);
}

}  // namespace

std::string_view to_string(Category category) { return kCategories[static_cast<size_t>(category)]; }

class Namer {
 public:
  Namer(const trace::Trace& trace, const trace::DeviceTrace& device, const History& history)
      : tables_(trace.tables), events_(trace.events_of(device)), history_(history) {
    names_.label_of_.resize(history.lifetimes.size());
  }

  Names run() {
    name_by_scope();
    for (const NamedBlock& block : named_blocks(tables_, events_, history_)) {
      const trace::Context& context = tables_.contexts[block.context];
      const std::string_view category = tables_.strings[context.category];
      names_.label_of_[block.lifetime] =
          label(tables_.strings[context.user_metadata], category, category_called(category));
    }
    return std::move(names_);
  }

 private:
  void name_by_scope() {
    const ScopeEnds ends(tables_, events_);
    for (uint32_t id = 0; id < history_.lifetimes.size(); ++id) {
      const Lifetime& lifetime = history_.lifetimes[id];
      if (lifetime.alloc_event == kBeforeRecording) continue;
      const trace::StringId path = tables_.contexts[lifetime.context].user_metadata;
      names_.has_paths_ = names_.has_paths_ || path != 0;
      if (ends.path(lifetime.context).part == StepPart::kNone) continue;
      const ScopePath& scope = ends.path(lifetime.context);
      const bool stays = freed_at(lifetime) >= ends.end_of(lifetime.alloc_event);
      const Category category = category_of(scope.part, stays);
      names_.label_of_[id] = label(scope.owner, to_string(category), category);
    }
  }

  Names::Label label(std::string_view name, std::string_view word, Category category) {
    std::string text = joined(name, word);
    if (text.empty()) return 0;
    const auto [found, is_new] =
        known_.try_emplace(text, static_cast<Names::Label>(names_.labels_.size()));
    if (is_new) names_.labels_.push_back({std::move(text), category});
    return found->second;
  }

  const trace::Tables& tables_;
  std::span<const trace::Event> events_;
  const History& history_;
  Names names_;
  std::unordered_map<std::string, Names::Label> known_;
};

Names find_names(const trace::Trace& trace, const trace::DeviceTrace& device,
                 const History& history) {
  return Namer(trace, device, history).run();
}

}  // namespace vram::explain
