#include "explain/findings/findings.hpp"

#include "base/bytes.hpp"
#include "explain/findings/findings_waste.hpp"
#include "explain/findings/replayed.hpp"
#include "explain/growth/trend.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace vram::explain {
namespace {

constexpr const char* kRecordStacks =
    "torch.cuda.memory._record_memory_history(stacks=\"python\") before the model is built";

const Holder* largest_holder(const State& state, Dimension by) {
  for (const Breakdown& b : state.breakdowns) {
    if (b.by != by) continue;
    const auto found = std::find_if(b.holders.begin(), b.holders.end(),
                                    [](const Holder& h) { return !h.before_recording; });
    return found == b.holders.end() ? nullptr : &*found;
  }
  return nullptr;
}

std::string oom_advice(const trace::Trace& trace, const DeviceReport& report, const Oom& oom) {
  const replay::TorchSettings settings = replay::recorded_torch(trace);
  const Waste& waste = oom.state.waste;
  const Help help = expandable_helps(report);
  const bool may_help = waste.stranded_bytes >= oom.requested_bytes && help != Help::kNo;
  if (!settings.expandable_segments && !replay::recorded_vram(trace) &&
      (help == Help::kYes || may_help)) {
    return fmt::format(
        "{} lay stranded in holes: set `export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` "
        "before Python starts.{}",
        format_bytes(waste.stranded_bytes), replayed_with_expandable(report));
  }
  if (waste.pending_bytes >= oom.requested_bytes) {
    return fmt::format(
        "{} were freed but still awaited by another stream: prefetch less far ahead, or "
        "synchronise that stream before this allocation.",
        format_bytes(waste.pending_bytes));
  }
  if (help == Help::kNo) {
    return "A setting would not do." + replayed_with_expandable(report) +
           " A smaller batch, activation checkpointing, or offloading of the largest holders will; "
           "`vram tune` tries other settings.";
  }
  return "The memory was in use: a smaller batch, activation checkpointing, or offloading of the "
         "largest holders. Look at who held it, and whether other processes share this GPU "
         "(nvidia-smi).";
}

void ooms(const trace::Trace& trace, const DeviceReport& report, std::vector<Finding>* out) {
  for (const Oom& oom : report.ooms) {
    const Totals& totals = oom.moment.totals;
    std::string detail = fmt::format(
        "{} reserved, of them {} active, {} stranded in holes (largest {}), {} pending; the driver "
        "had {} free.",
        format_bytes(totals.reserved_bytes), format_bytes(totals.active_bytes),
        format_bytes(oom.state.waste.stranded_bytes), format_bytes(oom.largest_hole_bytes),
        format_bytes(oom.state.waste.pending_bytes), format_bytes(oom.device_free_bytes));
    if (const Holder* holder = largest_holder(
            oom.state, trace.has_stacks ? Dimension::kUserFrame : Dimension::kSize)) {
      detail += fmt::format(" Largest holder: {}, {}.", holder->name,
                            format_bytes(holder->requested_bytes));
    }
    const std::string where = oom.step ? fmt::format(" in step {}", *oom.step + 1) : "";
    out->push_back({FindingKind::kOom, oom.requested_bytes,
                    fmt::format("Out of memory{}: {} asked for, none that large free", where,
                                format_bytes(oom.requested_bytes)),
                    std::move(detail), oom_advice(trace, report, oom)});
  }
}

std::string leak_advice(const Growth& growth) {
  if (growth.stack.empty()) {
    return fmt::format(
        "Something keeps these blocks from step to step. To see the line that allocates them, "
        "record with stacks: {}.",
        kRecordStacks);
  }
  return fmt::format(
      "Look at {}: what it makes is kept by a list, dict, attribute or closure. Keep numbers, not "
      "tensors (loss.item()), or detached copies on the CPU (x.detach().cpu()): a tensor that "
      "requires grad keeps its whole graph alive.",
      growth.site);
}

// What all leaks come to: live bytes at the ends of the steady steps, whatever grew there.
double growth_at_step_ends(const Steps& steps) {
  std::vector<double> ends;
  for (size_t i = steps.warmup_count; i < steps.steps.size(); ++i) {
    ends.push_back(static_cast<double>(steps.steps[i].end_requested_bytes));
  }
  return theil_sen(ends).median;
}

void leaks(const DeviceReport& report, std::vector<Finding>* out) {
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  double total_not_told = growth_at_step_ends(report.steps);  // once is enough
  for (const Growth& g : report.growth) {
    if (g.kind != GrowthKind::kLeak) continue;
    if (g.bytes_per_step * kLongRunSteps < kMinLeakShare * static_cast<double>(peak)) continue;
    const auto per_step = static_cast<uint64_t>(std::max(g.bytes_per_step, 1.0));
    std::string detail = fmt::format(
        "{} blocks from {} of {} steady steps are alive at the end, {} in all; live bytes at step "
        "ends rise.",
        format_count(g.live_count), g.birth_steps, g.steady_steps, format_bytes(g.live_bytes));
    if (const uint64_t doubled_after = peak / per_step + 1; doubled_after <= kMaxDoublingSteps)
      detail +=
          fmt::format(" At this rate the peak doubles in {} steps.", format_count(doubled_after));
    const double total = std::exchange(total_not_told, 0);
    if (total >= 1) {
      detail += fmt::format(" Live bytes at step ends rise by {} a step in all.",
                            format_bytes(static_cast<uint64_t>(total)));
    }
    out->push_back({FindingKind::kLeak, g.live_bytes,
                    fmt::format("Leak: {} a step from {}", format_bytes(per_step), g.site),
                    std::move(detail), leak_advice(g)});
  }
}

void one_off_growth(const DeviceReport& report, std::vector<Finding>* out) {
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  for (const Growth& g : report.growth) {
    if (g.kind == GrowthKind::kLeak || !matters(g.live_bytes, kMinOneOffShare, peak)) continue;
    const bool cache = g.kind == GrowthKind::kBoundedCache;
    const std::string size = format_bytes(g.live_bytes);
    out->push_back(
        {FindingKind::kGrowth, g.live_bytes,
         cache ? fmt::format("A cache that grew to {}: {}", size, g.site)
               : fmt::format("Allocated once and kept: {}, {}", size, g.site),
         fmt::format("{} blocks, born in {} of the recorded steps, are alive at the end; {}.",
                     format_count(g.live_count), g.birth_steps,
                     cache ? "they come at a falling rate, are replaced, or belong to the pool of "
                             "a CUDA graph"
                           : "no later step added any"),
         cache ? "No leak by this recording, but check that the cache has a limit; record more "
                 "steps to see it."
               : "Nothing, if this is optimizer state, gradients or a workspace: but a plan for "
                 "the peak must count it from the first step on."});
  }
}

void big_holder(const trace::Trace& trace, const DeviceReport& report, std::vector<Finding>* out) {
  if (!trace.has_stacks) return;
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  const Holder* holder = largest_holder(report.at_peak, Dimension::kUserFrame);
  if (holder == nullptr || !matters(holder->requested_bytes, kMinHolderShare, peak)) return;
  // What leaks is no working memory: the leak was told already.
  const bool leaks = std::any_of(report.growth.begin(), report.growth.end(), [&](const Growth& g) {
    return g.kind == GrowthKind::kLeak && g.site == holder->name;
  });
  if (leaks) return;
  out->push_back(
      {FindingKind::kHolder, holder->requested_bytes,
       fmt::format("{} holds {} ({}) at the peak", holder->name,
                   format_bytes(holder->requested_bytes),
                   format_share(holder->requested_bytes, peak)),
       fmt::format("{} blocks, the largest {}.", format_count(holder->count),
                   format_bytes(holder->largest_bytes)),
       "The place to save: activations made there can be recomputed (torch.utils.checkpoint), "
       "computed in smaller pieces, or kept in a smaller type (autocast to bfloat16); weights and "
       "optimizer state can be sharded or kept in 8 bits."});
}

void recording_quality(const trace::Trace& trace, const DeviceReport& report,
                       std::vector<Finding>* out) {
  const auto tell = [&](uint64_t bytes, std::string title, std::string detail, std::string advice) {
    out->push_back(
        {FindingKind::kRecording, bytes, std::move(title), std::move(detail), std::move(advice)});
  };
  const Verdict& verdict = report.verdict;
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  switch (verdict.confidence) {
    case Confidence::kOverflow:
      tell(0, "The recording lost its first part", verdict.detail,
           "Raise max_entries of _record_memory_history, or dump the snapshot after fewer steps.");
      break;
    case Confidence::kTruncated:
      tell(0, "The recording is cut off", verdict.detail,
           "Check the disk's free space and that the dump was finished; everything before the cut "
           "is explained here.");
      break;
    case Confidence::kContradiction:
      tell(0, "The recording contradicts itself", verdict.detail,
           "Take figures after the first contradiction as estimates. Record one process without "
           "skipped actions, and dump from the thread that trains.");
      break;
    case Confidence::kExact:
    case Confidence::kUnchecked:
    case Confidence::kConsistent:
      break;
  }
  if (matters(verdict.before_recording_bytes, kMinUnseenShare, peak)) {
    tell(verdict.before_recording_bytes,
         fmt::format("{} were there before the recording began",
                     format_bytes(verdict.before_recording_bytes)),
         fmt::format("{} blocks, {} of the peak, without the place they come from.",
                     format_count(verdict.before_recording_count),
                     format_share(verdict.before_recording_bytes, peak)),
         "Call _record_memory_history before the model is built to see them.");
  }
  const bool tells_names = report.at_peak.named_bytes.value_or(0) > 0;
  if (!trace.has_stacks && !tells_names && report.allocations > 0) {
    tell(0, "No stacks were recorded: names of code lines are missing",
         "Holders are told by size only.",
         fmt::format("Record again with {}. It costs a few microseconds an allocation.",
                     kRecordStacks));
  }
}

}  // namespace

std::vector<Finding> find_findings(const trace::Trace& trace, const trace::DeviceTrace& device,
                                   const DeviceReport& report) {
  std::vector<Finding> findings;
  ooms(trace, report, &findings);
  leaks(report, &findings);
  add_waste_findings(trace, device, report, &findings);
  one_off_growth(report, &findings);
  big_holder(trace, report, &findings);
  recording_quality(trace, report, &findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.bytes > b.bytes; });
  return findings;
}

}  // namespace vram::explain
