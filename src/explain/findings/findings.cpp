#include "explain/findings/findings.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/statistics.hpp"
#include "explain/findings/findings_leaks.hpp"
#include "explain/findings/findings_waste.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/whatif/what_if.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace vram::explain {
namespace {

const Breakdown* breakdown_by(const State& state, Dimension by) {
  const auto found = std::ranges::find(state.breakdowns, by, &Breakdown::by);
  return found == state.breakdowns.end() ? nullptr : &*found;
}

// Of those that are a place.
const Holder* largest_holder(const State& state, Dimension by) {
  const Breakdown* breakdown = breakdown_by(state, by);
  if (breakdown == nullptr) return nullptr;
  const auto found = std::ranges::find_if(breakdown->holders, [](const Holder& h) {
    return h.name != kBeforeName && h.name != kNoStackName && h.name != kNoScopeName;
  });
  return found == breakdown->holders.end() ? nullptr : &*found;
}

std::string save_memory(const DeviceReport& report, const Oom& oom) {
  const std::string smaller =
      tr("a smaller batch, activation checkpointing, or offloading of the largest holders");
  if (oom.limit_bytes) {
    return trf("Raise the limit (torch.cuda.set_per_process_memory_fraction), or use {}.", smaller);
  }
  const uint64_t own = oom.moment.totals.reserved_bytes + oom.device_free_bytes;
  if (report.memory_bytes && matters(*report.memory_bytes - std::min(own, *report.memory_bytes),
                                     kMinOthersShare, *report.memory_bytes)) {
    return trf(
        "{} of the GPU's {} were neither PyTorch's nor free: see with nvidia-smi which processes "
        "share it. Or use {}.",
        format_bytes(*report.memory_bytes - own), format_bytes(*report.memory_bytes), smaller);
  }
  return trf("Use {}; nvidia-smi shows whether other processes share this GPU.", smaller);
}

std::string oom_advice(const trace::Trace& trace, const DeviceReport& report, const Oom& oom) {
  std::string setting = recommended_setting(trace, report);
  if (!setting.empty()) return setting;
  const Waste& waste = oom.state.waste;
  if (waste.pending_bytes >= oom.requested_bytes) {
    return trf(
        "{} were freed but still awaited by another stream: prefetch less far ahead, or "
        "synchronise that stream before this allocation.",
        format_bytes(waste.pending_bytes));
  }
  std::string text;
  if (report.what_if) {
    const WhatIf* pool = what_if(report, "vram");
    text = tr("No setting of PyTorch replayed here lets it complete; `vram tune` tries more. ");
    if (pool != nullptr && pool->completed) {
      text +=
          trf("With vram's pool (`vram run --pool`) it completes, replayed with {} "
              "reserved. ",
              format_bytes(pool->peak_reserved_bytes));
    }
  } else if (waste.stranded_bytes >= oom.requested_bytes && !replay::recorded_vram(trace) &&
             !replay::recorded_torch(trace).expandable_segments) {
    text =
        tr("`export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` may make room of the holes; "
           "it could not be replayed. ");
  }
  return text + save_memory(report, oom);
}

// Why nothing that was there could serve the request.
std::string oom_detail(const trace::Trace& trace, const Oom& oom) {
  const Totals& totals = oom.moment.totals;
  const Waste& waste = oom.state.waste;
  std::string detail =
      oom.limit_bytes ? trf("A limit of about {} on this process was in force; the device "
                            "itself had {} free.",
                            format_bytes(*oom.limit_bytes), format_bytes(oom.device_free_bytes))
                      : trf("The device had {} free.", format_bytes(oom.device_free_bytes));
  detail += trf(" {} were reserved, of them {} active, {} stranded in holes, {} pending.",
                format_bytes(totals.reserved_bytes), format_bytes(totals.active_bytes),
                format_bytes(waste.stranded_bytes), format_bytes(waste.pending_bytes));
  if (oom.largest_hole_bytes >= oom.requested_bytes) {
    detail += trf(" A free block of {} serves {} only.", format_bytes(oom.largest_hole_bytes),
                  waste.largest_hole_domain);
  } else {
    detail += trf(" The largest free block was {}.", format_bytes(oom.largest_hole_bytes));
  }
  if (const Holder* holder =
          largest_holder(oom.state, trace.has_stacks ? Dimension::kUserFrame : Dimension::kSize)) {
    detail += trf(" Largest holder: {}, {}.", holder->name, format_bytes(holder->requested_bytes));
  }
  return detail;
}

// One finding for all: what helps the first helps the others.
void ooms(const trace::Trace& trace, const DeviceReport& report, std::vector<Finding>* out) {
  if (report.ooms.empty()) return;
  const Oom& oom = report.ooms.front();
  std::string title =
      trf("Out of memory{}: {} asked for", oom.step ? trf(" in step {}", *oom.step) : "",
          format_bytes(oom.requested_bytes));
  if (report.oom_count > 1) title += trf("; {} requests failed", format_count(report.oom_count));
  out->push_back({FindingKind::kOom, oom.requested_bytes, std::move(title), oom_detail(trace, oom),
                  oom_advice(trace, report, oom)});
}

struct GrowthText {
  const char* title;
  const char* why;
  const char* advice;
};

GrowthText text_of(GrowthKind kind) {
  if (kind == GrowthKind::kBoundedCache) {
    return {tr("A cache that grew to {}: {}"),
            tr("they come at a falling rate, are replaced, or belong to the pool of a CUDA graph"),
            tr("No leak by this recording, but check that the cache has a limit; record more steps "
               "to see it.")};
  }
  return {tr("A leak or a cache that fills, {}: {}"),
          tr("these are too few steps to tell whether new ones go on coming"),
          tr("Record more steps: a cache fills ever more slowly, a leak goes on.")};
}

// What was allocated once and kept needs no action; a cache may need a limit, and what is
// undecided more steps.
void other_growth(const DeviceReport& report, std::vector<Finding>* out) {
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  for (const Growth& g : report.growth) {
    if (g.kind != GrowthKind::kBoundedCache && g.kind != GrowthKind::kUndecided) continue;
    if (!matters(g.live_bytes, kMinCacheShare, peak)) continue;
    if (g.kind == GrowthKind::kUndecided && g.birth_steps == 0) {
      out->push_back(
          {FindingKind::kGrowth, g.live_bytes,
           trf("A tensor that grows: {} a step, {} now, from {}",
               format_bytes(static_cast<uint64_t>(std::max(g.bytes_per_step, 0.0))),
               format_bytes(g.live_bytes), g.site),
           tr("At the end of each steady step it is larger than before: each block is freed when a "
              "larger one has been made, as by torch.cat()."),
           tr("A leak, if it is a history that every step extends: keep its parts on the "
              "CPU, or limit its length. The cache of a sequence ends with the "
              "sequence.")});
      continue;
    }
    const GrowthText text = text_of(g.kind);
    out->push_back({FindingKind::kGrowth, g.live_bytes,
                    fmt::format(fmt::runtime(text.title), format_bytes(g.live_bytes), g.site),
                    trf("{} blocks, born in {} of the recorded steps, are alive at the end; {}.",
                        format_count(g.live_count), g.birth_steps, text.why),
                    text.advice});
  }
}

void big_holder(const trace::Trace& trace, const DeviceReport& report, std::vector<Finding>* out) {
  if (!trace.has_stacks) return;
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  const Holder* holder = largest_holder(report.at_peak, Dimension::kUserFrame);
  if (holder == nullptr || !matters(holder->requested_bytes, kMinHolderShare, peak)) return;
  // What leaks is no working memory: there is a finding of the leak already.
  const bool leaks = std::any_of(report.growth.begin(), report.growth.end(), [&](const Growth& g) {
    return g.kind == GrowthKind::kLeak && g.line == holder->name;
  });
  if (leaks) return;
  out->push_back(
      {FindingKind::kHolder, holder->requested_bytes,
       trf("{} holds {} ({}) at the peak", holder->name, format_bytes(holder->requested_bytes),
           format_share(holder->requested_bytes, peak)),
       holder->count == 1 ? trf("{}.", counted(1, "block"))
                          : trf("{} blocks, the largest {}.", format_count(holder->count),
                                format_bytes(holder->largest_bytes)),
       tr("The place to save: activations made there can be recomputed (torch.utils.checkpoint), "
          "computed in smaller pieces, or kept in a smaller type (autocast to bfloat16); weights "
          "and "
          "optimizer state can be sharded or kept in 8 bits.")});
}

// Of the peak, what was there before the recording and has no known place.
const Holder* unseen_at_peak(const trace::Trace& trace, const DeviceReport& report) {
  const State& state = report.at_peak;
  const bool has_places = trace.has_stacks || state.named_bytes.has_value();
  const Breakdown* breakdown =
      breakdown_by(state, has_places ? Dimension::kUserFrame : Dimension::kAge);
  if (breakdown == nullptr) return nullptr;
  const auto found = std::ranges::find(breakdown->holders, kBeforeName, &Holder::name);
  return found == breakdown->holders.end() ? nullptr : &*found;
}

// What another recording would show: one finding, since one call makes it.
void missing_places(const trace::Trace& trace, const DeviceReport& report,
                    std::vector<Finding>* out) {
  const uint64_t peak = report.peak.requested.totals.requested_bytes;
  const bool has_places = trace.has_stacks || report.at_peak.named_bytes.value_or(0) > 0;
  const Holder* unseen = unseen_at_peak(trace, report);
  if (unseen != nullptr && matters(unseen->requested_bytes, kMinUnseenShare, peak)) {
    out->push_back({FindingKind::kRecording, unseen->requested_bytes,
                    trf("{} of the peak were there before the recording began",
                        format_bytes(unseen->requested_bytes)),
                    trf("{} blocks, {} of the peak, without the place they come from.{}",
                        format_count(unseen->count), format_share(unseen->requested_bytes, peak),
                        has_places ? "" : tr(" No stacks were recorded for the others.")),
                    trf("To see the lines that hold them, call {}, with max_entries enough for the "
                        "whole run.",
                        tr(kRecordStacks))});
    return;
  }
  // A leak without a stack asked for them already.
  const bool is_requested =
      std::ranges::find(*out, FindingKind::kLeak, &Finding::kind) != out->end();
  if (has_places || is_requested || report.allocations == 0) return;
  out->push_back(
      {FindingKind::kRecording, 0, tr("No stacks were recorded: names of code lines are missing"),
       tr("Holders are told by size only."),
       trf("Record again with {}. It costs a few microseconds an allocation.", tr(kRecordStacks))});
}

void recording_quality(const trace::Trace& trace, const DeviceReport& report,
                       std::vector<Finding>* out) {
  const auto add_incomplete = [&](std::string title, std::string advice) {
    out->push_back(
        {FindingKind::kRecording, 0, std::move(title), report.verdict.detail, std::move(advice)});
  };
  switch (report.verdict.confidence) {
    case Confidence::kOverflow:
      return add_incomplete(
          tr("The recording lost its first part"),
          tr("Raise max_entries of _record_memory_history, or dump the snapshot after fewer "
             "steps."));
    case Confidence::kTruncated:
      add_incomplete(tr("The recording is cut off"),
                     tr("Check the disk's free space and that the dump was finished; everything "
                        "before the cut "
                        "is explained here."));
      break;
    case Confidence::kContradiction:
      add_incomplete(
          tr("The recording contradicts itself"),
          tr("Take figures after the first contradiction as estimates. Record one process without "
             "skipped actions, and dump from the thread that trains."));
      break;
    case Confidence::kExact:
    case Confidence::kUnchecked:
    case Confidence::kConsistent:
      break;
  }
  missing_places(trace, report, out);
}

// Where a finding stands: an OOM first, the recording itself last.
int rank_of(const Finding& finding) {
  return finding.kind == FindingKind::kOom ? 0 : finding.kind == FindingKind::kRecording ? 2 : 1;
}

}  // namespace

std::vector<Finding> find_findings(const trace::Trace& trace, const trace::DeviceTrace& device,
                                   const DeviceReport& report, std::vector<Finding> patterns) {
  std::vector<Finding> findings = std::move(patterns);
  ooms(trace, report, &findings);
  add_leak_findings(trace, report, &findings);
  add_waste_findings(trace, device, report, &findings);
  other_growth(report, &findings);
  big_holder(trace, report, &findings);
  recording_quality(trace, report, &findings);
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    const int rank = rank_of(a) - rank_of(b);
    return rank != 0 ? rank < 0 : a.bytes > b.bytes;
  });
  return findings;
}

}  // namespace vram::explain
