#include "explain/steps/phases.hpp"

#include "base/statistics.hpp"
#include "base/time.hpp"
#include "explain/moment/curve.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace vram::explain {
namespace {

constexpr double kMinScopeShare =
    0.6;  // of a step's events that scopes must cover to be its phases
constexpr double kMinStackShare =
    0.3;  // of its allocations whose stack must say a phase other than forward
constexpr size_t kMaxPhases = 12;  // more are summed up as "other"
// the rest begins where live bytes are within a tenth of the swing of the end
constexpr uint64_t kRestShare = 10;

// A stretch of one step: events [first, end).
struct Part {
  std::string_view name;
  uint64_t first = 0;
  uint64_t end = 0;
};

using Parts = std::vector<Part>;

// The outermost scopes that lie inside the step, themselves not the step.
Parts parts_of_scopes(const trace::Tables& tables, const Scopes& scopes, const Step& step) {
  Parts parts;
  const uint64_t end = step.first_event + step.event_count;
  uint64_t at = step.first_event;
  const auto first = std::lower_bound(scopes.all.begin(), scopes.all.end(), step.first_event,
                                      [](const Scope& s, uint64_t e) { return s.first_event < e; });
  for (auto s = first; s != scopes.all.end() && s->first_event < end; ++s) {
    const bool whole = s->first_event == step.first_event && s->end_event >= end;
    if (whole || s->first_event < at || s->end_event > end || s->first_event >= s->end_event)
      continue;
    parts.push_back({tables.strings[s->name], s->first_event, s->end_event});
    at = s->end_event;
  }
  return parts;
}

bool cover(const Parts& parts, const Step& step) {
  uint64_t covered = 0;
  for (const Part& part : parts) covered += part.end - part.first;
  return static_cast<double>(covered) >= kMinScopeShare * static_cast<double>(step.event_count);
}

// Says of stacks which phase they belong to: the innermost frame that tells.
class StackPhases {
 public:
  explicit StackPhases(const trace::Tables& tables)
      : tables_(tables), known_(tables.stacks.size(), -1) {}

  enum Kind : int8_t { kForward, kBackward, kOptimizer };
  static constexpr std::string_view kNames[] = {"forward", "backward", "optimizer"};

  Kind of(trace::StackId stack) {
    int8_t& known = known_[stack];
    if (known < 0) known = classify(stack);
    return static_cast<Kind>(known);
  }

 private:
  int8_t classify(trace::StackId stack) const {
    for (const trace::FrameId id : tables_.stacks[stack]) {
      const trace::Frame& frame = tables_.frames[id];
      const std::string_view function = tables_.strings[frame.function];
      const std::string_view file = tables_.strings[frame.file];
      if (function == "backward" || function == "_engine_run_backward" ||
          function.starts_with("torch::autograd::Engine"))
        return kBackward;
      if (file.find("torch/optim/") != std::string_view::npos ||
          file.find("torch\\optim\\") != std::string_view::npos)
        return kOptimizer;
    }
    return kForward;
  }

  const trace::Tables& tables_;
  std::vector<int8_t> known_;
};

// Runs of one kind. Autograd's own threads have no Python stack, so an allocation without one stays
// in the phase before it. A phase begins at the first allocation that says so and short turns back
// are part of it.
Parts parts_of_stacks(std::span<const trace::Event> events, const Step& step, StackPhases* phases) {
  Parts parts;
  uint64_t telling = 0;
  uint64_t allocations = 0;
  const uint64_t end = step.first_event + step.event_count;
  for (uint64_t e = step.first_event; e < end; ++e) {
    if (events[e].kind != trace::EventKind::kAlloc) continue;
    ++allocations;
    if (events[e].stack == 0) continue;
    const StackPhases::Kind kind = phases->of(events[e].stack);
    telling += kind == StackPhases::kForward ? 0 : 1;
    const std::string_view name = StackPhases::kNames[kind];
    if (!parts.empty() && parts.back().name == name) continue;
    if (!parts.empty()) parts.back().end = e;
    parts.push_back({name, parts.empty() ? step.first_event : e, end});
  }
  const bool enough =
      static_cast<double>(telling) >= kMinStackShare * static_cast<double>(allocations);
  return parts.size() > 1 && enough ? parts : Parts{};
}

// Each step's live bytes by its events: walked once for all steps.
struct LiveCurve {
  std::vector<uint64_t> live;  // after each event of the step
  uint64_t before = 0;         // before its first
};

Parts parts_of_curve(const Step& step, const LiveCurve& curve) {
  const auto peak = std::max_element(curve.live.begin(), curve.live.end());
  const uint64_t last = curve.live.back();
  const uint64_t near = last + (*peak - std::min(*peak, last)) / kRestShare;
  auto rest = peak;
  for (auto at = curve.live.end(); at != peak && *(at - 1) <= near; --at) rest = at - 1;
  if (rest == peak) rest = curve.live.end();
  const auto event_of = [&](auto at) {
    return step.first_event + static_cast<uint64_t>(at - curve.live.begin());
  };
  const uint64_t end = step.first_event + step.event_count;
  Parts parts = {{"rise", step.first_event, event_of(peak) + 1}};
  if (event_of(rest) > event_of(peak) + 1)
    parts.push_back({"fall", event_of(peak) + 1, event_of(rest)});
  if (event_of(rest) < end)
    parts.push_back({"rest", std::max(event_of(rest), event_of(peak) + 1), end});
  return parts;
}

// What is between the named parts of a step.
Parts with_gaps(const Parts& parts, const Step& step) {
  Parts all;
  uint64_t at = step.first_event;
  const uint64_t end = step.first_event + step.event_count;
  for (const Part& part : parts) {
    if (part.first > at) all.push_back({"other", at, part.first});
    all.push_back(part);
    at = part.end;
  }
  if (at < end) all.push_back({"other", at, end});
  return all;
}

// One phase of one step; a name that occurs several times in a step is summed.
struct Sample {
  int64_t duration_ns = 0;
  uint64_t peak_bytes = 0;
  int64_t delta_bytes = 0;
  uint64_t allocated_bytes = 0;
};

// Of an even number of samples, the mean of the two in the middle.
template <typename Value>
Value median_in(const std::vector<Sample>& samples, Value Sample::* field) {
  std::vector<Value> values;
  values.reserve(samples.size());
  for (const Sample& s : samples) values.push_back(s.*field);
  return median_of(std::move(values));
}

class PhaseFinder {
 public:
  PhaseFinder(const trace::Trace& trace, const trace::DeviceTrace& device, const History& history,
              const Scopes& scopes)
      : trace_(trace),
        events_(trace.events_of(device)),
        scopes_(scopes),
        walk_(events_, history),
        stacks_(trace.tables) {}

  void add(const Step& step) {
    LiveCurve curve;
    for (; next_ < step.first_event; ++next_) walk_.step();
    curve.before = walk_.totals().requested_bytes;
    for (; next_ < step.first_event + step.event_count; ++next_) {
      walk_.step();
      curve.live.push_back(walk_.totals().requested_bytes);
    }
    std::map<std::string_view, Sample> of_step;
    for (const Part& part : parts_of(step, curve)) sample(step, curve, part, &of_step);
    for (const auto& [name, s] : of_step) samples_[name].push_back(s);
    ++steps_;
  }

  // A phase is one that most steps have. Names stay in the order they were first met.
  std::vector<Phase> medians() const {
    std::vector<Phase> phases;
    for (const std::string_view name : order_) {
      const std::vector<Sample>& all = samples_.at(name);
      if (all.size() * 2 <= steps_ || phases.size() == kMaxPhases) continue;
      phases.push_back({std::string(name), median_in(all, &Sample::duration_ns),
                        median_in(all, &Sample::peak_bytes), median_in(all, &Sample::delta_bytes),
                        median_in(all, &Sample::allocated_bytes)});
    }
    return phases;
  }

 private:
  // The first step decides by what; steps must not be described in different ways.
  enum class By { kUndecided, kScopes, kStacks, kCurve };

  Parts parts_of(const Step& step, const LiveCurve& curve) {
    const bool any = by_ == By::kUndecided;
    if (any || by_ == By::kScopes) {
      const Parts parts = parts_of_scopes(trace_.tables, scopes_, step);
      if (!any || cover(parts, step)) return decided(By::kScopes, with_gaps(parts, step));
    }
    if (any || by_ == By::kStacks) {
      const Parts parts = trace_.has_stacks ? parts_of_stacks(events_, step, &stacks_) : Parts{};
      if (!parts.empty()) return decided(By::kStacks, parts);
      if (!any) return {};
    }
    return decided(By::kCurve, parts_of_curve(step, curve));
  }

  Parts decided(By by, Parts parts) {
    by_ = by;
    return parts;
  }

  void sample(const Step& step, const LiveCurve& curve, const Part& part,
              std::map<std::string_view, Sample>* of_step) {
    if (part.first >= part.end) return;
    if (std::find(order_.begin(), order_.end(), part.name) == order_.end())
      order_.push_back(part.name);
    Sample& s = (*of_step)[part.name];
    const auto live_before = [&](uint64_t e) {
      return e == step.first_event ? curve.before : curve.live[e - 1 - step.first_event];
    };
    if (trace_.has_time) {
      const uint64_t last = std::min<uint64_t>(part.end, events_.size() - 1);
      s.duration_ns = sum_of_nanoseconds(
          s.duration_ns, nanoseconds_between(events_[part.first].time_ns, events_[last].time_ns));
    } else {
      s.duration_ns += static_cast<int64_t>(part.end - part.first);
    }
    s.delta_bytes +=
        static_cast<int64_t>(live_before(part.end)) - static_cast<int64_t>(live_before(part.first));
    for (uint64_t e = part.first; e < part.end; ++e) {
      s.peak_bytes = std::max(s.peak_bytes, curve.live[e - step.first_event]);
      if (events_[e].kind == trace::EventKind::kAlloc) s.allocated_bytes += events_[e].size_bytes;
    }
  }

  const trace::Trace& trace_;
  std::span<const trace::Event> events_;
  const Scopes& scopes_;
  TotalsWalker walk_;
  StackPhases stacks_;
  uint64_t next_ = 0;
  size_t steps_ = 0;
  By by_ = By::kUndecided;
  std::vector<std::string_view> order_;
  std::map<std::string_view, std::vector<Sample>> samples_;
};

}  // namespace

std::vector<Phase> find_phases(const trace::Trace& trace, const trace::DeviceTrace& device,
                               const History& history, const Scopes& scopes, const Steps& steps) {
  PhaseFinder finder(trace, device, history, scopes);
  for (size_t i = std::min<size_t>(steps.warmup_count, steps.steps.size()); i < steps.steps.size();
       ++i) {
    if (steps.steps[i].event_count > 0) finder.add(steps.steps[i]);
  }
  return finder.medians();
}

}  // namespace vram::explain
