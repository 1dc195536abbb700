#include "plan/recorded/windows.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace vram::plan {
namespace {

using explain::StepPart;

// Does `text` match a pattern in which '*' stands for any text?
bool matches(std::string_view pattern, std::string_view text) {
  size_t star = pattern.npos;  // the last '*', and where what it stands for began
  size_t star_text = 0;
  size_t p = 0;
  size_t t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// Calls visit(begin, end) for each component of a module's name, until it returns false.
template <typename Visit>
void for_each_component(std::string_view name, Visit&& visit) {
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (!visit(begin, end)) return;
    begin = end + 1;
  }
}

// Which modules are stages: a pattern, or the numbered elements of a list.
struct Selection {
  std::string pattern;
  bool is_list = false;

  // The stage that a module is, or is a part of: the beginning of its name. Empty: none.
  [[nodiscard]] std::string_view stage_of(std::string_view module) const {
    std::string_view rest = pattern;
    std::string_view found;
    for_each_component(module, [&](size_t begin, size_t end) {
      const std::string_view component = module.substr(begin, end - begin);
      const size_t dot = std::min(rest.find('.'), rest.size());
      if (!matches(rest.substr(0, dot), component)) return false;
      if (dot < rest.size()) {
        rest.remove_prefix(dot + 1);
        return true;
      }
      if (!is_list || is_number(component)) found = module.substr(0, end);
      return false;
    });
    return found;
  }
};

struct ModuleList {
  std::set<std::string_view> elements;
  uint64_t allocated_bytes = 0;
};

// The lists of modules, by the pattern of their elements ("transformer.h.*").
using ModuleLists = std::map<std::string, ModuleList>;

struct Allocated {
  ModuleLists lists;
  uint64_t bytes = 0;
};

Allocated allocated_in_lists(const ModuleScopes& scopes,
                             std::span<const trace::Event> forward_events) {
  std::map<std::string_view, uint64_t> by_module;
  Allocated all;
  for (const trace::Event& event : forward_events) {
    const bool is_alloc = event.kind == trace::EventKind::kAlloc;
    if (is_alloc) all.bytes += event.size_bytes;
    if (scopes.part(event) == StepPart::kForward)
      by_module[scopes.module(event)] += is_alloc ? event.size_bytes : 0;
  }
  for (const auto& each : by_module) {
    const std::string_view module = each.first;
    for_each_component(module, [&](size_t begin, size_t end) {
      if (!is_number(module.substr(begin, end - begin))) return true;
      ModuleList& list = all.lists[std::string(module.substr(0, begin)) + "*"];
      list.elements.insert(module.substr(0, end));
      list.allocated_bytes += each.second;
      return true;
    });
  }
  return all;
}

std::string described(const ModuleLists::value_type& list, uint64_t all_bytes) {
  return fmt::format(
      "{} ({} modules, {} of the bytes)", printable(list.first), list.second.elements.size(),
      fmt::format("{:.0f} %", 100.0 * static_cast<double>(list.second.allocated_bytes) /
                                  static_cast<double>(std::max<uint64_t>(all_bytes, 1))));
}

Result<Selection> longest_list(const ModuleScopes& scopes,
                               std::span<const trace::Event> forward_events) {
  const auto [lists, all_bytes] = allocated_in_lists(scopes, forward_events);
  const ModuleLists::value_type* best = nullptr;
  std::vector<std::string> found;
  for (const auto& list : lists) {
    const size_t count = list.second.elements.size();
    if (count < 2) continue;
    found.push_back(described(list, all_bytes));
    const bool has_half = list.second.allocated_bytes >= all_bytes / 2;
    if (has_half && (!best || count > best->second.elements.size())) best = &list;
  }
  if (best) return Selection{best->first, true};
  constexpr size_t kMaxNamed = 5;
  if (found.size() > kMaxNamed) found.resize(kMaxNamed);
  return fail(Code::kBadInput,
              "expected a list of modules (h.0, h.1, ...) that allocates at least half of the "
              "bytes of the forward pass, found {}; name the modules that follow one another: "
              "--stages 'layer*.*'",
              found.empty() ? "none" : fmt::format("{}", fmt::join(found, ", ")));
}

// Where each stage's events begin in one direction, in the order in which they come.
struct Run {
  std::string_view stage;
  uint32_t first = 0;
};

struct Runs {
  std::vector<Run> all;
  uint32_t end = 0;  // after the last event of the last stage
};

Result<Runs> runs_of(const ModuleScopes& scopes, std::span<const trace::Event> events,
                     const Selection& selection, StepPart part, uint32_t begin, uint32_t end) {
  Runs runs;
  std::set<std::string_view> seen;
  for (uint32_t i = begin; i < end; ++i) {
    if (scopes.part(events[i]) != part) continue;
    const std::string_view stage = selection.stage_of(scopes.module(events[i]));
    if (stage.empty()) continue;
    runs.end = i + 1;
    if (!runs.all.empty() && runs.all.back().stage == stage) continue;
    if (!seen.insert(stage).second) {
      return fail(Code::kBadInput,
                  "expected stages that run one after the other, found that {} works {} again "
                  "after {} (event {}); choose modules that do not overlap with --stages",
                  printable(stage), part == StepPart::kForward ? "forward" : "backward",
                  printable(runs.all.back().stage), i);
    }
    runs.all.push_back({stage, i});
  }
  return runs;
}

Result<> check_backward(const Runs& forward, const Runs& backward) {
  std::vector<std::string_view> expected;
  for (const Run& run : forward.all) expected.push_back(run.stage);
  std::vector<std::string_view> found;
  for (const Run& run : backward.all) found.push_back(run.stage);
  std::ranges::reverse(found);
  if (expected == found) return {};
  const auto differ = std::ranges::mismatch(expected, found);
  const auto name = [](auto at, const auto& all) {
    return at == all.end() ? std::string("no stage") : printable(*at);
  };
  return fail(
      Code::kBadInput,
      "expected a backward of each stage, in the reverse order of forward: found {} where "
      "{} was expected ({} stages forward, {} backward); name modules that are trained with "
      "--stages",
      name(differ.in2, found), name(differ.in1, expected), expected.size(), found.size());
}

}  // namespace

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

Result<Windows> find_windows(const ModuleScopes& scopes, std::span<const trace::Event> events,
                             const Pass& pass, std::string_view pattern) {
  Selection selection{std::string(pattern), false};
  if (pattern.empty()) {
    VRAM_TRY_ASSIGN(selection,
                    longest_list(scopes, events.subspan(pass.first, pass.backward - pass.first)));
  }
  VRAM_TRY_ASSIGN(const auto forward, runs_of(scopes, events, selection, StepPart::kForward,
                                              pass.first, pass.backward));
  VRAM_TRY_ASSIGN(const auto backward,
                  runs_of(scopes, events, selection, StepPart::kBackward, pass.backward, pass.end));
  if (forward.all.empty()) {
    return fail(Code::kBadInput,
                "expected modules that match --stages '{}', found none in the forward pass",
                printable(pattern));
  }
  VRAM_TRY(check_backward(forward, backward));
  const bool has_before = forward.all.front().first > pass.first;
  const bool has_after = forward.end < pass.backward;
  Windows windows;
  const auto add = [&](std::string_view stage, uint32_t begin) {
    windows.stages.emplace_back(stage);
    windows.begins.push_back(begin);
  };
  if (has_before) add(kStageBefore, pass.first);
  for (const Run& run : forward.all) add(run.stage, run.first);
  if (has_after) add(kStageAfter, forward.end);
  // What comes before the first stage's backward belongs to the stage behind it, or else to it.
  windows.begins.push_back(pass.backward);
  for (size_t i = has_after ? 0 : 1; i < backward.all.size(); ++i)
    windows.begins.push_back(backward.all[i].first);
  if (has_before) windows.begins.push_back(backward.end);
  windows.begins.push_back(pass.end);
  return windows;
}

}  // namespace vram::plan
