#include "explain/names/names.hpp"

#include "base/language.hpp"
#include "explain/site/site.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <unordered_map>

namespace vram::explain {
namespace {

constexpr std::array<std::string_view, 6> kCategories = {
    tr_later("other"),           tr_later("parameter"),  tr_later("gradient"),
    tr_later("optimizer state"), tr_later("activation"), tr_later("temporary")};

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

// A name or a path of scopes. Many events may share one text of any length, so its end is ignored.
std::string_view text_of(const trace::Tables& tables, trace::StringId id) {
  return tables.strings[id].substr(0, trace::kMaxNameBytes);
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
      const std::string_view category = text_of(tables_, context.category);
      names_.label_of_[block.lifetime] =
          label(text_of(tables_, context.user_metadata), category, category_called(category));
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
    if (const auto known = known_.find(text); known != known_.end()) return known->second;
    text = fit_name(std::move(text), room_bytes_);
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
  uint64_t room_bytes_ = kMaxNamesBytes;
};

Names find_names(const trace::Trace& trace, const trace::DeviceTrace& device,
                 const History& history) {
  return Namer(trace, device, history).run();
}

namespace {

StepPart part_of(std::string_view component) {
  if (component == "forward") return StepPart::kForward;
  if (component == "recompute") return StepPart::kRecompute;
  if (component == "backward") return StepPart::kBackward;
  if (component == "optimizer") return StepPart::kOptimizer;
  return StepPart::kNone;
}

// Modules nest, and each is called by its whole name: layers.7/layers.7.mlp is layers.7.mlp.
std::string_view innermost_module(std::string_view owner) {
  const size_t slash = owner.rfind('/');
  if (slash == owner.npos) return owner;
  const std::string_view inner = owner.substr(slash + 1);
  std::string_view outer = owner.substr(0, slash);
  outer.remove_prefix(outer.rfind('/') + 1);
  const bool is_part = inner.size() > outer.size() && inner.starts_with(outer);
  return is_part && inner[outer.size()] == '.' ? inner : owner;
}

}  // namespace

// The innermost part counts: scopes of modules nest, each with its part in front. But what runs
// forward within backward is recomputed.
ScopePath parse_scope_path(std::string_view path) {
  path = path.substr(0, trace::kMaxNameBytes);
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
  found.owner = innermost_module(found.owner);
  return found;
}

bool is_within(std::string_view path, std::string_view scope) {
  return path.starts_with(scope) && (path.size() == scope.size() || path[scope.size()] == '/');
}

namespace {

// Names are in the place of paths there.
bool has_path(const trace::Event& event) { return event.kind != trace::EventKind::kAnnotate; }

}  // namespace

ScopeEnds::ScopeEnds(const trace::Tables& tables, std::span<const trace::Event> events) {
  for (trace::ContextId id = 0; id < tables.contexts.size(); ++id)
    paths_.push_back(parse_scope_path(text_of(tables, tables.contexts[id].user_metadata)));
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
      if (!is_within(text_of(tables, tables.contexts[next.context].user_metadata), scope.extent))
        break;
      const ScopePath& inner = paths_[next.context];
      const bool is_inside = inner.part != StepPart::kNone && is_within(inner.extent, scope.extent);
      end = is_inside ? ends_[end] : end + 1;
    }
    ends_[i] = end;
  }
}

namespace {

using trace::EventKind;

bool is_name(const trace::Tables& tables, const trace::Event& event) {
  if (event.kind != EventKind::kAnnotate) return false;
  const trace::Context& context = tables.contexts[event.context];
  return context.user_metadata != 0 || context.category != 0;
}

// The blocks that are there, by address, as the events come.
class Present {
 public:
  explicit Present(const History& history) : history_(history) {
    for (uint32_t id = 0; id < history.before_recording_count; ++id) add(id);
  }
  // A block that a later one replaced goes with that one.
  void see(const trace::Event& event, uint32_t lifetime) {
    if (lifetime == kNoLifetime) return;
    if (event.kind == EventKind::kAlloc) add(lifetime);
    if (event.kind == EventKind::kFreeCompleted) remove(lifetime);
  }
  [[nodiscard]] uint32_t at(uint64_t address) const {
    const auto after = by_address_.upper_bound(address);
    if (after == by_address_.begin()) return kNoLifetime;
    const uint32_t id = std::prev(after)->second;
    const Lifetime& lifetime = history_.lifetimes[id];
    return address - lifetime.address < lifetime.block_bytes ? id : kNoLifetime;
  }

 private:
  void add(uint32_t id) { by_address_.insert_or_assign(history_.lifetimes[id].address, id); }
  void remove(uint32_t id) {
    const auto found = by_address_.find(history_.lifetimes[id].address);
    if (found != by_address_.end() && found->second == id) by_address_.erase(found);
  }
  const History& history_;
  std::map<uint64_t, uint32_t> by_address_;
};

}  // namespace

std::vector<NamedBlock> named_blocks(const trace::Tables& tables,
                                     std::span<const trace::Event> events, const History& history) {
  const auto named = [&](const trace::Event& event) { return is_name(tables, event); };
  if (std::ranges::none_of(events, named)) return {};
  Present present(history);
  std::map<uint32_t, NamedBlock> blocks;
  for (size_t i = 0; i < history.lifetime_of_event.size(); ++i) {
    present.see(events[i], history.lifetime_of_event[i]);
    if (!is_name(tables, events[i])) continue;
    const uint32_t id = present.at(events[i].address);
    if (id == kNoLifetime) continue;
    NamedBlock& best = blocks[id];
    if (events[i].size_bytes < best.size_bytes) continue;
    best = {id, events[i].context, events[i].size_bytes};
  }
  std::vector<NamedBlock> all;
  for (const auto& [id, best] : blocks) all.push_back(best);
  return all;
}

}  // namespace vram::explain
