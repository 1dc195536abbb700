#include "show/names.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "explain/moment/breakdown.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show {

using explain::Clock;
using explain::Confidence;
using explain::Dimension;
using explain::FindingKind;
using explain::GrowthKind;
using explain::LeakVerdict;
using explain::RankMeasure;
using explain::StepSource;

std::string_view identifier(Dimension dimension) {
  switch (dimension) {
    case Dimension::kStack:
      return "stack";
    case Dimension::kUserFrame:
      return "user_frame";
    case Dimension::kScope:
      return "scope";
    case Dimension::kSize:
      return "size";
    case Dimension::kStream:
      return "stream";
    case Dimension::kAge:
      return "age";
    case Dimension::kPool:
      return "pool";
    case Dimension::kCategory:
      return "category";
    case Dimension::kOperator:
      return "operator";
  }
  return "unknown";
}

std::string_view identifier(StepSource source) {
  switch (source) {
    case StepSource::kNone:
      return "none";
    case StepSource::kAnnotations:
      return "annotations";
    case StepSource::kRepetition:
      return "repetition";
  }
  return "unknown";
}

std::string_view identifier(GrowthKind kind) {
  switch (kind) {
    case GrowthKind::kLeak:
      return "leak";
    case GrowthKind::kOneOff:
      return "one_off";
    case GrowthKind::kBoundedCache:
      return "bounded_cache";
    case GrowthKind::kUndecided:
      return "undecided";
  }
  return "unknown";
}

std::string_view identifier(LeakVerdict verdict) {
  switch (verdict) {
    case LeakVerdict::kJudged:
      return "judged";
    case LeakVerdict::kNoFrees:
      return "no_frees";
    case LeakVerdict::kNoSteps:
      return "no_steps";
    case LeakVerdict::kTooFewSteps:
      return "too_few_steps";
    case LeakVerdict::kMostlyKept:
      return "mostly_kept";
  }
  return "unknown";
}

std::string_view identifier(explain::RestKind kind) {
  using explain::RestKind;
  switch (kind) {
    case RestKind::kAllocator:
      return "allocator";
    case RestKind::kDriver:
      return "driver";
    case RestKind::kOthers:
      return "other_processes";
    case RestKind::kContext:
      return "context";
    case RestKind::kLibrary:
      return "library";
    case RestKind::kGrowth:
      return "growth";
    case RestKind::kGraphs:
      return "graph_nodes";
    case RestKind::kPool:
      return "default_pool";
    case RestKind::kModules:
      return "modules";
  }
  return "unknown";
}

std::string_view identifier(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOom:
      return "oom";
    case FindingKind::kLeak:
      return "leak";
    case FindingKind::kFragmentation:
      return "fragmentation";
    case FindingKind::kReleasable:
      return "releasable";
    case FindingKind::kPending:
      return "pending";
    case FindingKind::kRounding:
      return "rounding";
    case FindingKind::kStreams:
      return "streams";
    case FindingKind::kGrowth:
      return "growth";
    case FindingKind::kHolder:
      return "holder";
    case FindingKind::kRecording:
      return "recording";
    case FindingKind::kGradientsKept:
      return "gradients_kept";
    case FindingKind::kIdleState:
      return "idle_state";
    case FindingKind::kTemporaries:
      return "temporaries";
    case FindingKind::kLateFree:
      return "late_free";
    case FindingKind::kPrefetch:
      return "prefetch";
    case FindingKind::kDuplicate:
      return "duplicate";
    case FindingKind::kOldModel:
      return "old_model";
    case FindingKind::kEqualParameters:
      return "equal_parameters";
    case FindingKind::kNoGrad:
      return "no_grad";
    case FindingKind::kUpcast:
      return "upcast";
    case FindingKind::kChurn:
      return "churn";
    case FindingKind::kCleaning:
      return "cleaning";
    case FindingKind::kMixedLifetimes:
      return "mixed_lifetimes";
    case FindingKind::kDataParallel:
      return "data_parallel";
    case FindingKind::kPinnedHost:
      return "pinned_host";
  }
  return "unknown";
}

std::string_view identifier(Confidence confidence) {
  switch (confidence) {
    case Confidence::kExact:
      return "exact";
    case Confidence::kContradiction:
      return "contradiction";
    case Confidence::kOverflow:
      return "overflow";
    case Confidence::kTruncated:
      return "truncated";
    case Confidence::kUnchecked:
      return "unchecked";
    case Confidence::kConsistent:
      return "consistent";
  }
  return "unknown";
}

std::string_view identifier(RankMeasure measure) {
  switch (measure) {
    case RankMeasure::kNone:
      return "none";
    case RankMeasure::kHeadroom:
      return "headroom";
    case RankMeasure::kReserved:
      return "reserved";
    case RankMeasure::kRequested:
      return "requested";
  }
  return "unknown";
}

std::string_view identifier(Clock clock) { return clock == Clock::kTime ? "time" : "event_index"; }

std::string_view phrase(Confidence confidence) {
  switch (confidence) {
    case Confidence::kExact:
      return tr("end state reproduced exactly");
    case Confidence::kContradiction:
      return tr("segments contradict the trace");
    case Confidence::kOverflow:
      return tr("ring overflowed: the first part is missing");
    case Confidence::kTruncated:
      return tr("file truncated: the last part is missing");
    case Confidence::kUnchecked:
      return tr("not checked");
    case Confidence::kConsistent:
      return tr("recorded from the beginning, and no event contradicts another");
  }
  return "";
}

std::string_view phrase(Dimension dimension) {
  switch (dimension) {
    case Dimension::kStack:
      return tr("by stack");
    case Dimension::kUserFrame:
      return tr("by line of your code");
    case Dimension::kScope:
      return tr("by scope");
    case Dimension::kSize:
      return tr("by size");
    case Dimension::kStream:
      return tr("by stream");
    case Dimension::kAge:
      return tr("by age");
    case Dimension::kPool:
      return tr("by pool");
    case Dimension::kCategory:
      return tr("by category");
    case Dimension::kOperator:
      return tr("by operator");
  }
  return "";
}

std::string holder_text(Dimension by, std::string_view name) {
  constexpr std::string_view kBlocks = " blocks";
  const bool is_size =
      name.ends_with(kBlocks) && (by == Dimension::kSize || by == Dimension::kUserFrame);
  if (is_size && is_translated())
    return trf("{} blocks", printable(name.substr(0, name.size() - kBlocks.size())));
  const bool is_ours = by == Dimension::kAge || by == Dimension::kPool ||
                       by == Dimension::kCategory || by == Dimension::kStream ||
                       name == explain::kBeforeName || name == explain::kNoStackName ||
                       name == explain::kNoScopeName;
  return is_ours ? std::string(tr(name)) : printable(name);
}

std::string device_name(const explain::DeviceReport& device) {
  if (device.is_host) return tr("pinned host memory");
  return fmt::format("GPU {}", device.ordinal);
}

std::string time_text(Clock clock, int64_t time_ns) {
  if (clock == Clock::kTime) return time_ns == 0 ? "0 s" : format_duration_ns(time_ns);
  return tr("event ") + format_count(static_cast<uint64_t>(std::max<int64_t>(time_ns, 0)));
}

std::optional<size_t> step_of(const explain::Steps& steps, int64_t moment) {
  if (moment < 0) return std::nullopt;
  const auto event = static_cast<uint64_t>(moment);
  const auto after = std::ranges::upper_bound(steps.steps, event, {}, &explain::Step::first_event);
  if (after == steps.steps.begin()) return std::nullopt;
  const auto step = after - 1;
  if (event >= step->first_event + step->event_count) return std::nullopt;
  return static_cast<size_t>(step - steps.steps.begin());
}

std::string when(Clock clock, const explain::DeviceReport& device, const explain::Moment& moment) {
  const std::string text = tr("at ") + time_text(clock, moment.time_ns);
  const std::optional<size_t> step = step_of(device.steps, moment.event);
  return step ? trf("{} in step {}", text, *step) : text;
}

}  // namespace vram::show
