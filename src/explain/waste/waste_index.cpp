#include "explain/waste/waste_index.hpp"

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "explain/names/names.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace vram::explain {
namespace {

using trace::EventKind;

constexpr std::string_view kOptimizerStep = "Optimizer.step";
constexpr std::string_view kZeroGrad = "Optimizer.zero_grad";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Sorted, and ranges that touch or overlap joined.
std::vector<EventRange> joined_ranges(std::vector<EventRange> ranges) {
  std::ranges::sort(ranges, {}, &EventRange::first);
  std::vector<EventRange> joined;
  for (const EventRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

uint64_t mixed(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9e3779b97f4a7c15 ^ (hash >> 29);
}

}  // namespace

WasteIndex::WasteIndex(const Sources& sources, const DeviceReport& report)
    : sources_(sources),
      report_(report),
      events_(sources.trace.events_of(sources.device)),
      user_frames_(sources.trace.tables),
      facts_(sources.trace.tables.stacks.size()),
      parts_(sources.trace.tables.contexts.size()) {
  std::vector<uint64_t> counts;
  for (size_t i = report.steps.warmup_count; i < report.steps.steps.size(); ++i)
    counts.push_back(report.steps.steps[i].event_count);
  step_events_ = median_of(std::move(counts));
}

const std::vector<uint32_t>& WasteIndex::at_peak() {
  if (!at_peak_) {
    const std::vector<int64_t> moments = {peak_event()};
    at_peak_ = std::move(
        gather_live(sources_.trace, sources_.device, sources_.history, moments)[0].lifetimes);
    std::erase_if(*at_peak_, [&](uint32_t id) { return is_private(block(id)); });
    std::ranges::sort(*at_peak_);
  }
  return *at_peak_;
}

const PeakReplay& WasteIndex::replay() {
  if (!replay_) replay_.emplace(events_, sources_.history);
  return *replay_;
}

// Runs of events whose scope is the optimizer's part of a step.
std::vector<EventRange> WasteIndex::scoped_optimizer_steps() {
  std::vector<EventRange> steps;
  for (uint64_t i = 0; i < events_.size(); ++i) {
    // A name is in the place of the path there.
    if (events_[i].kind == EventKind::kAnnotate) continue;
    if (part_of(events_[i].context) != StepPart::kOptimizer) continue;
    if (!steps.empty() && steps.back().end == i) {
      steps.back().end = i + 1;
    } else {
      steps.push_back({i, i + 1});
    }
  }
  return steps;
}

void WasteIndex::find_optimizer_steps() {
  if (std::exchange(has_marks_, true)) return;
  for (const Scope& scope : sources_.scopes.all) {
    if (!scope.closed) continue;
    const std::string_view name = sources_.trace.tables.strings[scope.name];
    if (name.starts_with(kOptimizerStep))
      optimizer_steps_.push_back({scope.first_event, scope.end_event});
    if (name.starts_with(kZeroGrad)) zero_grads_.push_back({scope.first_event, scope.end_event});
  }
  const std::vector<EventRange> scoped = scoped_optimizer_steps();
  optimizer_steps_.insert(optimizer_steps_.end(), scoped.begin(), scoped.end());
  optimizer_steps_ = joined_ranges(std::move(optimizer_steps_));
}

const std::vector<EventRange>& WasteIndex::optimizer_steps() {
  find_optimizer_steps();
  return optimizer_steps_;
}

const std::vector<EventRange>& WasteIndex::zero_grads() {
  find_optimizer_steps();
  return zero_grads_;
}

const EventRange* WasteIndex::step_ended_by(int64_t event) {
  const std::vector<EventRange>& steps = optimizer_steps();
  const auto after = std::partition_point(steps.begin(), steps.end(), [&](const auto& step) {
    return static_cast<int64_t>(step.end) <= event;
  });
  return after == steps.begin() ? nullptr : &*std::prev(after);
}

StackFacts WasteIndex::examine(trace::StackId stack) const {
  const trace::Tables& tables = sources_.trace.tables;
  StackFacts facts{.is_known = true};
  uint64_t path = 0;
  bool is_autocast = false;
  bool is_cast = false;
  for (const trace::FrameId id : tables.stacks[stack]) {
    const trace::Frame& frame = tables.frames[id];
    const std::string_view function = tables.strings[frame.function];
    const std::string_view file = tables.strings[frame.file];
    path = mixed(path, id);
    if (function == "_call_impl" && contains(file, "torch/nn/modules/module.py")) {
      facts.in_module = true;
      facts.module_path = path;
    }
    facts.in_backward = facts.in_backward || function == "backward" ||
                        function == "_engine_run_backward" ||
                        contains(function, "torch::autograd::Engine");
    facts.in_optimizer = facts.in_optimizer || contains(file, "torch/optim/");
    facts.empties_cache = facts.empties_cache || function == "empty_cache" ||
                          contains(function, "THCPModule_emptyCache");
    is_cast = is_cast || contains(function, "_to_copy");
    // at::autocast::CastPolicy::fp32 is 1.
    is_autocast = is_autocast || (contains(function, "at::autocast::WrapFunction_") &&
                                  contains(function, "CastPolicy)1"));
    facts.data_parallel =
        facts.data_parallel || contains(file, "torch/nn/parallel/data_parallel.py");
    facts.gathers = facts.gathers || function == "gather" ||
                    (function == "forward" && contains(file, "torch/nn/parallel/_functions.py"));
  }
  facts.upcasts = is_cast && is_autocast;
  facts.gathers = facts.gathers && facts.data_parallel;
  return facts;
}

const StackFacts& WasteIndex::facts(trace::StackId stack) {
  StackFacts& known = facts_[stack];
  if (!known.is_known) known = examine(stack);
  return known;
}

StepPart WasteIndex::part_of(trace::ContextId context) {
  const trace::Tables& tables = sources_.trace.tables;
  std::optional<StepPart>& part = parts_[context];
  if (!part) {
    const std::string_view path = tables.strings[tables.contexts[context].user_metadata];
    part = parse_scope_path(path).part;
  }
  return *part;
}

bool WasteIndex::is_of_forward(const Lifetime& lifetime) {
  if (lifetime.stack == 0) return part_of(lifetime.context) == StepPart::kForward;
  const StackFacts& known = facts(lifetime.stack);
  return known.in_module && !known.in_backward && !known.in_optimizer;
}

bool WasteIndex::is_of_backward(trace::StackId stack, trace::ContextId context) {
  if (stack != 0) return facts(stack).in_backward;
  return sources_.trace.has_stacks || part_of(context) == StepPart::kBackward;
}

bool WasteIndex::is_private(const Lifetime& lifetime) const {
  if (lifetime.pool != trace::kUnknownPool) return lifetime.pool != 0;
  return sources_.trace.tables.pools.size() > 1;
}

uint32_t WasteIndex::place(const Lifetime& lifetime) const {
  if (lifetime.stack != 0) return lifetime.stack;
  const trace::Tables& tables = sources_.trace.tables;
  const bool has_path = tables.contexts[lifetime.context].user_metadata != 0;
  return has_path ? static_cast<uint32_t>(tables.stacks.size()) + lifetime.context : 0;
}

uint32_t WasteIndex::place_count() const {
  const trace::Tables& tables = sources_.trace.tables;
  return static_cast<uint32_t>(tables.stacks.size() + tables.contexts.size());
}

std::string WasteIndex::line_of(trace::StackId stack) {
  if (stack == 0) return "";
  const trace::Tables& tables = sources_.trace.tables;
  return frame_name(tables, tables.frames[user_frames_.frame(stack)]);
}

std::string WasteIndex::line(const Lifetime& lifetime) {
  if (lifetime.stack != 0) return line_of(lifetime.stack);
  const trace::Tables& tables = sources_.trace.tables;
  return limit_bytes(tables.strings[tables.contexts[lifetime.context].user_metadata],
                     trace::kMaxNameBytes);
}

std::string WasteIndex::line_of_release(const Lifetime& lifetime) {
  const int64_t event = released(lifetime);
  if (event < 0 || event >= static_cast<int64_t>(events_.size())) return "";
  const trace::StackId stack = events_[static_cast<size_t>(event)].stack;
  // The stack of the allocation is repeated there if those of frees were not recorded.
  return stack == lifetime.stack ? "" : line_of(stack);
}

bool WasteIndex::has_more_allocations(uint64_t limit, int64_t first, int64_t end) const {
  end = std::min<int64_t>(end, static_cast<int64_t>(events_.size()));
  uint64_t count = 0;
  for (int64_t e = std::max<int64_t>(first, 0); e < end && count <= limit; ++e)
    count += events_[static_cast<size_t>(e)].kind == EventKind::kAlloc ? 1 : 0;
  return count > limit;
}

const std::vector<std::vector<uint32_t>>& WasteIndex::released_together() {
  if (released_together_) return *released_together_;
  std::vector<uint32_t> ids;
  for (const uint32_t id : at_peak())
    if (released(block(id)) > peak_event() && released(block(id)) != kNeverGone) ids.push_back(id);
  std::ranges::sort(ids, {}, [&](uint32_t id) { return released(block(id)); });
  std::vector<std::vector<uint32_t>>& sets = released_together_.emplace();
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool joins =
        i > 0 && !has_more_allocations(0, released(block(ids[i - 1])), released(block(ids[i])));
    if (!joins) sets.emplace_back();
    sets.back().push_back(ids[i]);
  }
  for (std::vector<uint32_t>& set : sets) std::ranges::sort(set);
  return sets;
}

}  // namespace vram::explain
