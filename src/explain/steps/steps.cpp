#include "explain/steps/steps.hpp"

#include "base/language.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "explain/moment/curve.hpp"
#include "explain/steps/boundaries.hpp"
#include "explain/steps/evidence.hpp"
#include "explain/steps/repetition.hpp"
#include "explain/steps/step_marks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

namespace vram::explain {
namespace {

constexpr uint64_t kLongLivedShare = 3;  // of the recording: such a block belongs to no step
constexpr size_t kJudged = 8;            // repetitions, best first, that are asked for evidence
constexpr uint32_t kInnerRepeats = 4;
constexpr size_t kMaxSplits = 4;
constexpr double kGradientSwing =
    0.05;  // share of a step's swing by which live bytes drop when gradients are freed
constexpr double kMovedShare = 0.01;  // of the peak: less is no movement

using Range = EventRange;

// What finding steps needs to know of each event range.
struct Input {
  const trace::Trace& trace;
  const trace::DeviceTrace& device;
  const History& history;
  std::span<const trace::Event> events;
};

std::vector<Step> measure(const Input& in, const std::vector<Range>& ranges, int64_t origin_ns) {
  const auto time_of = [&](uint64_t event) {
    if (!in.trace.has_time || in.events.empty()) return static_cast<int64_t>(event);
    return nanoseconds_between(origin_ns,
                               in.events[std::min<uint64_t>(event, in.events.size() - 1)].time_ns);
  };
  std::vector<Step> steps;
  TotalsWalker walk(in.events, in.history);
  uint64_t e = 0;
  for (const Range& range : ranges) {
    for (; e < range.first; ++e) walk.step();
    Step step;
    step.name = fmt::format("step {}", steps.size() + 1);
    step.first_event = range.first;
    step.event_count = range.end - range.first;
    step.begin_ns = time_of(range.first);
    step.end_ns = time_of(range.end);
    step.peak_requested_bytes = walk.totals().requested_bytes;
    step.peak_reserved_bytes = walk.totals().reserved_bytes;
    step.peak_event = range.first;
    for (; e < range.end; ++e) {
      walk.step();
      if (walk.totals().requested_bytes > step.peak_requested_bytes) {
        step.peak_requested_bytes = walk.totals().requested_bytes;
        step.peak_event = e;
      }
      step.peak_reserved_bytes = std::max(step.peak_reserved_bytes, walk.totals().reserved_bytes);
    }
    step.end_requested_bytes = walk.totals().requested_bytes;
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<Range> scope_ranges(const Scopes& scopes, const std::vector<uint32_t>& chosen) {
  std::vector<Range> ranges;
  for (const uint32_t index : chosen) {
    const uint64_t first =
        std::max(scopes.all[index].first_event, ranges.empty() ? 0 : ranges.back().end);
    ranges.push_back({first, std::max(first, scopes.all[index].end_event)});
  }
  return ranges;
}

Steps steps_from_marks(const Input& in, const Scopes& scopes, const StepMarks& marks,
                       const std::vector<Range>& scoped, int64_t origin_ns) {
  Steps steps;
  steps.source = StepSource::kAnnotations;
  steps.evidence = marks.evidence;
  if (!marks.is_step) steps.evidence += tr("; most free in reverse order what they allocated");
  if (marks.kind == StepMarks::Kind::kPeriods) {
    steps.steps =
        measure(in, ranges_around(in.events, in.history, scoped, MarkKind::kAnnotation), origin_ns);
    return steps;
  }
  steps.steps = measure(in, scoped, origin_ns);
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const Scope& scope = scopes.all[marks.scopes[i]];
    steps.steps[i].name = limit_bytes(in.trace.tables.strings[scope.name], trace::kMaxNameBytes);
    steps.steps[i].begin_ns = nanoseconds_between(origin_ns, scope.begin_ns);
    steps.steps[i].end_ns = nanoseconds_between(origin_ns, scope.end_ns);
  }
  return steps;
}

struct Allocations {
  PodVector<SizedAllocation> sized;
  PodVector<uint32_t> event_of;
};

Allocations sized_allocations(const Input& in) {
  Allocations all;
  all.sized.reserve(in.history.lifetimes.size());
  all.event_of.reserve(in.history.lifetimes.size());
  TotalsWalker walk(in.events, in.history);
  const uint64_t long_life = in.events.size() / kLongLivedShare;
  for (uint64_t e = 0; e < in.events.size(); ++e) {
    walk.step();
    const uint32_t index = in.history.lifetime_of_event[e];
    if (in.events[e].kind != trace::EventKind::kAlloc || index == kNoLifetime) continue;
    const Lifetime& l = in.history.lifetimes[index];
    const uint64_t end = std::min<uint64_t>(
        std::min(l.free_requested_event, l.free_completed_event), in.events.size());
    all.sized.push_back({l.requested_bytes, walk.totals().requested_bytes, end > e + long_life});
    all.event_of.push_back(static_cast<uint32_t>(e));
  }
  return all;
}

// Gradient accumulation: gradients come with the first of several passes, stay through them and go
// at once, so live bytes between passes drop every r-th time, and rise again with the next pass
// alone (a cache rises bit by bit). The step is then the r passes that end with a drop. Returns r,
// or 1.
size_t passes_per_step(const std::vector<Step>& passes) {
  std::vector<uint64_t> swings;
  swings.reserve(passes.size());
  for (const Step& p : passes)
    swings.push_back(p.peak_requested_bytes -
                     std::min(p.end_requested_bytes, p.peak_requested_bytes));
  const auto least = static_cast<int64_t>(kGradientSwing * static_cast<double>(median_of(swings)));
  std::vector<size_t> drops;
  for (size_t i = 1; i + 1 < passes.size(); ++i) {
    const auto fall = static_cast<int64_t>(passes[i - 1].end_requested_bytes) -
                      static_cast<int64_t>(passes[i].end_requested_bytes);
    const auto rise = static_cast<int64_t>(passes[i + 1].end_requested_bytes) -
                      static_cast<int64_t>(passes[i].end_requested_bytes);
    if (fall > least && rise > least && rise * 5 > fall * 4) drops.push_back(i);
  }
  if (drops.size() < 3) return 1;
  const size_t r = drops[1] - drops[0];
  for (size_t i = 1; i < drops.size(); ++i) {
    if (drops[i] - drops[i - 1] != r) return 1;
  }
  return drops.front() < 3 * r && (drops.front() + 1) % r == 0 ? r : 1;
}

// The last of every `r` marks, of the first `passes`.
std::vector<Range> every(size_t r, const std::vector<Range>& marks, size_t passes) {
  std::vector<Range> last;
  for (size_t i = r - 1; i < passes; i += r) last.push_back(marks[i]);
  return last;
}

// What a repetition's ranges are, and what they show.
struct Repeated {
  const Repetition* repetition = nullptr;
  std::vector<Range> marks;
  std::vector<Range> ranges;
  StepEvidence evidence;
};

// Does the period hold at least four of a shorter one? A program's loop over its inputs holds the
// loops over layers or tokens; the innermost loop shows nothing but itself.
bool holds_a_loop(const Repetition& outer, const std::vector<Repetition>& all) {
  return std::ranges::any_of(all, [&](const Repetition& inner) {
    return uint64_t{inner.typical_distance} * kInnerRepeats <= outer.typical_distance &&
           inner.anchors.size() >= kInnerRepeats * outer.anchors.size();
  });
}

Repeated around(const Input& in, const Repetition& repetition, std::vector<Range> marks) {
  Repeated found{&repetition, std::move(marks), {}, {}};
  found.ranges = ranges_around(in.events, in.history, found.marks, MarkKind::kSequence);
  found.evidence = find_evidence(in.history, found.ranges);
  return found;
}

// The ends of steps of so many passes that train. A range may contain several steps; ranges that
// follow one another and contain fewer passes than a step are parts of one.
std::vector<Range> marks_at_passes(const StepEvidence& evidence, size_t passes) {
  std::vector<Range> marks;
  std::vector<uint64_t> part;
  const auto mark = [&](uint64_t turn) { marks.push_back({turn, turn + 1}); };
  for (const std::vector<uint64_t>& turns : evidence.turns) {
    const bool is_part = turns.size() < passes;
    if (is_part) part.insert(part.end(), turns.begin(), turns.end());
    if (is_part && part.size() < passes) continue;
    if (!part.empty()) mark(part.back());
    part.clear();
    const size_t steps = is_part ? 0 : (turns.size() + passes / 2) / passes;
    for (size_t i = 1; i <= steps; ++i) mark(turns[std::min(i * passes, turns.size()) - 1]);
  }
  if (!part.empty()) mark(part.back());
  return marks;
}

bool are_steps(const StepEvidence& evidence) {
  return evidence.trains && evidence.is_even && !evidence.has_evaluations;
}

// Steps that differ by an evaluation, or by the size of their batch, repeat in part only, and a
// sequence may come twice in a step: ranges then contain several steps, or some of them one and
// others two or a part. Each pass that trains is a step of its own, or a micro-batch of one; if
// nearly all ranges contain the same number of them, so many are a step. In shorter ranges passes
// are told apart more clearly, so that this is repeated. Nothing: they are no steps.
std::optional<Repeated> evened(const Input& in, Repeated repeated) {
  for (size_t tries = 0; repeated.evidence.trains && tries < kMaxSplits; ++tries) {
    const StepEvidence& evidence = repeated.evidence;
    const bool found = are_steps(evidence);
    // Without passes that train in most ranges, there is no number of them that makes a step.
    if (found && (evidence.odd_ranges == 0 || evidence.usual_passes == 0)) break;
    std::vector<Range> marks = marks_at_passes(evidence, found ? evidence.usual_passes : 1);
    if (marks.size() < 2) break;
    Repeated split = around(in, *repeated.repetition, std::move(marks));
    const bool is_better = !found || (split.evidence.usual_passes == evidence.usual_passes &&
                                      split.evidence.odd_ranges < evidence.odd_ranges);
    if (!are_steps(split.evidence) || !is_better) break;
    repeated = std::move(split);
  }
  return are_steps(repeated.evidence) ? std::optional(std::move(repeated)) : std::nullopt;
}

// The best repetition that trains and has evenly many passes, as it is or split at its passes; else
// the best that holds a loop and stands alone.
std::optional<Repeated> find_repeated(const Input& in, const Allocations& all,
                                      const std::vector<Repetition>& found) {
  std::optional<Repeated> alone;
  size_t judged = 0;
  for (const Repetition& repetition : found) {
    if (!repetition.swings) continue;
    if (++judged > kJudged) break;
    std::vector<Range> marks;
    marks.reserve(repetition.anchors.size());
    for (const uint32_t anchor : repetition.anchors)
      marks.push_back({all.event_of[anchor], all.event_of[anchor] + 1});
    Repeated repeated = around(in, repetition, std::move(marks));
    if (std::optional<Repeated> steps = evened(in, repeated)) return steps;
    if (!alone && repeated.evidence.is_even && repeated.evidence.stands_alone &&
        holds_a_loop(repetition, found))
      alone = std::move(repeated);
  }
  return alone;
}

Steps steps_from_repetition(const Input& in, int64_t origin_ns) {
  Steps steps;
  const Allocations all = sized_allocations(in);
  const std::vector<Repetition> found = find_repetitions(all.sized.span());
  const std::optional<Repeated> repeated = find_repeated(in, all, found);
  if (!repeated) {
    steps.evidence =
        found.empty()
            ? tr("no annotations, and nothing in the allocations repeats regularly through the "
                 "recording")
            : trf("no annotations; what recurs in the allocations ({} times, every {} allocations) "
                  "may be layers, or parts of some steps: it shows neither a backward pass in each "
                  "nor a loop that starts again",
                  found.front().anchors.size(), found.front().typical_distance);
    return steps;
  }
  const Repetition& repetition = *repeated->repetition;
  steps.source = StepSource::kRepetition;
  steps.steps = measure(in, repeated->ranges, origin_ns);
  steps.evidence = trf(
      "{} sequences of allocation sizes recur {} times, every {} allocations, through {:.0f} % of "
      "the recording; {}",
      repetition.distinct_runs, repetition.anchors.size(), repetition.typical_distance,
      repetition.coverage * 100,
      repeated->evidence.trains ? tr("most free in reverse order what they allocated")
                                : tr("most hand nothing to the next"));
  if (!repeated->evidence.trains) return steps;
  size_t r = passes_per_step(steps.steps);
  if (r == 1) {
    r = passes_per_step(measure(
        in, ranges_around(in.events, in.history, repeated->marks, MarkKind::kPass), origin_ns));
  }
  if (r > 1) {
    const std::vector<Range> marks = every(r, repeated->marks, repeated->ranges.size());
    steps.steps =
        measure(in, ranges_around(in.events, in.history, marks, MarkKind::kSequence), origin_ns);
    steps.evidence += trf("; gradients are freed every {} of them, which make one step", r);
  }
  return steps;
}

int64_t signed_bytes(uint64_t bytes) { return static_cast<int64_t>(bytes); }

}  // namespace

uint64_t count_warmup(const std::vector<Step>& steps) {
  const size_t n = steps.size();
  if (n < 4) return n > 1 ? 1 : 0;
  std::vector<int64_t> late;
  for (size_t i = n / 2; i < n; ++i)
    late.push_back(signed_bytes(steps[i].end_requested_bytes) -
                   signed_bytes(steps[i - 1].end_requested_bytes));
  const int64_t typical = median_of(late);
  std::vector<int64_t> deviations;
  deviations.reserve(late.size());
  for (const int64_t d : late) deviations.push_back(std::abs(d - typical));
  const auto moved =
      static_cast<int64_t>(kMovedShare * static_cast<double>(steps.back().peak_requested_bytes));
  const int64_t spread = 3 * median_of(deviations) + moved;
  const auto settled = [&](size_t i) {
    const int64_t grown =
        signed_bytes(steps[i].end_requested_bytes) - signed_bytes(steps[i - 1].end_requested_bytes);
    const int64_t reserved =
        signed_bytes(steps[i].peak_reserved_bytes) - signed_bytes(steps[i - 1].peak_reserved_bytes);
    return std::abs(grown - typical) <= spread &&
           reserved <= moved + 2 * std::max<int64_t>(typical, 0);
  };
  // Nothing is known of what was before the first step, so it is judged by its likeness to the
  // second.
  const auto count = [&](size_t i) { return static_cast<double>(steps[i].event_count); };
  const bool first_alike = settled(1) && std::abs(count(0) - count(1)) <= 0.02 * count(1);
  if (first_alike) return 0;
  uint64_t warmup = 1;
  while (warmup < n / 4 && !settled(warmup)) ++warmup;
  return warmup;
}

Steps find_steps(const trace::Trace& trace, const trace::DeviceTrace& device,
                 const History& history, const Scopes& scopes, int64_t origin_ns) {
  const Input in{trace, device, history, trace.events_of(device)};
  Steps steps;
  for (const StepMarks& marks : find_step_marks(trace.tables, scopes)) {
    const std::vector<Range> regions = scope_ranges(scopes, marks.scopes);
    if (!marks.is_step && !find_evidence(history, regions).trains) continue;
    steps = steps_from_marks(in, scopes, marks, regions, origin_ns);
    break;
  }
  if (steps.source == StepSource::kNone) steps = steps_from_repetition(in, origin_ns);
  std::erase_if(steps.steps, [](const Step& step) { return step.event_count == 0; });
  steps.warmup_count = count_warmup(steps.steps);
  return steps;
}

}  // namespace vram::explain
