#include "explain/findings/findings_waste.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "explain/findings/findings.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/whatif/what_if.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"
#include "replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace vram::explain {
namespace {

// The allocator that the program ran on.
struct Recorded {
  replay::TorchSettings torch;
  bool is_vram = false;  // its own pool served, whatever the settings say
};

constexpr size_t kNamedPinners = 3;

std::string of_reserved(uint64_t bytes, uint64_t reserved) {
  return trf("{} ({} of reserved)", format_bytes(bytes), format_share(bytes, reserved));
}

std::string pinned_by(const std::vector<Pinner>& pinners) {
  std::string text;
  size_t named = 0;
  for (const Pinner& p : pinners) {
    if (named == kNamedPinners) break;
    if (p.name == kNoStackName || p.name == kNoScopeName) continue;
    if (named++ != 0) text += tr(", ");
    text += trf("{} ({} keep {} from use)", p.name, format_bytes(p.pinned_bytes),
                format_bytes(p.stranded_bytes));
  }
  return text.empty() ? text : trf(" Held open by {}.", text);
}

// How reserved memory lay unused when most was reserved.
std::string unused_memory(const State& state) {
  const Waste& waste = state.waste;
  std::string text =
      trf("When most memory was reserved ({}), {} lay in whole free segments",
          format_bytes(state.moment.totals.reserved_bytes), format_bytes(waste.releasable_bytes));
  text +=
      trf(", {} in {} between live blocks and {} in rounding; the largest free block "
          "was {}.",
          format_bytes(waste.stranded_bytes),
          waste.hole_count == 1 ? tr("one hole") : format_count(waste.hole_count) + tr(" holes"),
          format_bytes(waste.rounding_bytes), format_bytes(waste.largest_hole_bytes));
  return text + pinned_by(state.pinners);
}

// A setting that replays found better. Where the program ran out of memory, that finding has it.
void better_setting(const trace::Trace& trace, const DeviceReport& report,
                    std::vector<Finding>* out) {
  const uint64_t saved = recommended_saves(report);
  if (saved == 0) return;
  const State& state = report.at_reserved_peak;
  const bool is_cache = state.waste.releasable_bytes > state.waste.stranded_bytes;
  out->push_back({is_cache ? FindingKind::kReleasable : FindingKind::kFragmentation, saved,
                  trf("A setting of the allocator saves {}",
                      of_reserved(saved, report.peak.reserved.totals.reserved_bytes)),
                  unused_memory(state), recommended_setting(trace, report)});
}

constexpr const char* kFewerHoles = tr_later(
    "Allocate what lives long before the first step, so that it does not settle between "
    "short-lived blocks; fewer different shapes (padding to buckets) leave fewer holes.");

std::string fragmentation_advice(const DeviceReport& report, const Recorded& recorded) {
  if (recorded.is_vram) {
    return tr(
        "vram's pool shows holes as one range before it takes more, so they serve what comes "
        "next, up to its slack (`vram tune` and docs/pool.md). Fewer different shapes (padding "
        "to buckets) leave fewer holes.");
  }
  const replay::TorchSettings& settings = recorded.torch;
  if (settings.expandable_segments && settings.has_max_split()) {
    return tr(
        "Remove max_split_size_mb: together with expandable_segments its size rules reject free "
        "blocks that would fit, and reserved memory can grow without end.");
  }
  if (report.what_if) {
    return trf("{} No setting replayed here does noticeably better; `vram tune` tries more.",
               tr(kFewerHoles));
  }
  if (settings.expandable_segments) return tr(tr(kFewerHoles));
  return trf(
      "{}`export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` may help: segments then grow in "
      "place. How much could not be replayed. {}",
      settings.has_max_split() ? tr("Remove max_split_size_mb, which keeps larger blocks whole. ")
                               : "",
      tr(kFewerHoles));
}

void fragmentation(const DeviceReport& report, const Recorded& recorded,
                   std::vector<Finding>* out) {
  const State& state = report.at_reserved_peak;
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  const uint64_t bytes = state.waste.stranded_bytes;
  if (!matters(bytes, kMinWasteShare, reserved)) return;
  out->push_back({FindingKind::kFragmentation, bytes,
                  trf("Fragmentation strands {}", of_reserved(bytes, reserved)),
                  unused_memory(state), fragmentation_advice(report, recorded)});
}

void pending(const State& state, std::vector<Finding>* out) {
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  const uint64_t bytes = state.waste.pending_bytes;
  if (!matters(bytes, kMinWasteShare, reserved)) return;
  out->push_back(
      {FindingKind::kPending, bytes,
       trf("Freed but awaited by other streams: {}", of_reserved(bytes, reserved)),
       trf("{} were freed by the program but had been used on another stream "
           "(Tensor.record_stream), and come back only when an allocation after that "
           "stream's work finds them done.",
           format_bytes(bytes)),
       tr("Let the side stream run less far ahead (prefetch one batch, not several). Or drop "
          "record_stream: keep a reference to the tensor until the stream that allocated it has "
          "waited for the one that used it (stream.wait_stream or an event); then its memory is "
          "reused at once.")});
}

// Of roundup_power2_divisions; 0 and 1 mean off.
uint64_t largest_divisions(const replay::TorchSettings& settings) {
  return *std::ranges::max_element(settings.divisions);
}

std::string rounding_advice(const replay::TorchSettings& settings) {
  if (largest_divisions(settings) > 1) {
    return tr(
        "Remove roundup_power2_divisions from PYTORCH_CUDA_ALLOC_CONF, or raise its number: "
        "sizes are rounded up to the next part of a power of two, and more divisions round "
        "less. It pays only where shapes change so much that blocks are rarely reused.");
  }
  return tr(
      "Blocks are multiples of 512 bytes, and free blocks are not split when up to 1 MiB would "
      "remain. Keep many small tensors in one flat buffer (fused or foreach optimizers, "
      "concatenated parameters); a setting cannot help.");
}

void rounding(const DeviceReport& report, const replay::TorchSettings& settings,
              std::vector<Finding>* out) {
  const State& state = report.at_reserved_peak;
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  const uint64_t bytes = state.waste.rounding_bytes;
  if (!matters(bytes, kMinWasteShare, reserved)) return;
  // Then the recommended setting has other divisions, or none.
  if (largest_divisions(settings) > 1 && what_if_recommended(report) != nullptr) return;
  const std::string why =
      largest_divisions(settings) > 1
          ? trf("roundup_power2_divisions is set ({})", largest_divisions(settings))
      : state.block_count == 1 ? tr("one block was live")
                               : trf("{} blocks were live", format_count(state.block_count));
  out->push_back(
      {FindingKind::kRounding, bytes, trf("Rounding wastes {}", of_reserved(bytes, reserved)),
       trf("Blocks were {} larger than what was asked for; {}.", format_bytes(bytes), why),
       rounding_advice(settings)});
}

// Free blocks serve only the stream they were first allocated on. Known for the end of the
// recording. Of the default pool: private pools have streams of their own, those of a capture.
void other_streams(const trace::DeviceTrace& device, const DeviceReport& report,
                   std::vector<Finding>* out) {
  if (!device.has_end_state) return;
  struct Held {
    uint64_t reserved = 0;
    uint64_t free = 0;
  };
  std::map<trace::StreamId, Held> by_stream;
  for (const trace::Segment& s : device.segments) {
    if (s.pool != 0 && s.pool != trace::kUnknownPool) continue;
    Held& held = by_stream[s.stream];
    held.reserved += s.size_bytes;
    for (uint64_t b = s.first_block; b < s.first_block + s.block_count && b < device.blocks.size();
         ++b) {
      if (device.blocks[b].state == trace::BlockState::kInactive)
        held.free += device.blocks[b].size_bytes;
    }
  }
  if (by_stream.size() < 2) return;
  const auto by_reserved = [](const auto& a, const auto& b) {
    return a.second.reserved < b.second.reserved;
  };
  const auto main =
      by_stream.contains(0) ? by_stream.find(0) : std::ranges::max_element(by_stream, by_reserved);
  uint64_t free = 0;
  for (const auto& [stream, held] : by_stream) free += stream == main->first ? 0 : held.free;
  const uint64_t peak = report.peak.reserved.totals.reserved_bytes;
  if (!matters(free, kMinWasteShare, peak)) return;
  const size_t others = by_stream.size() - 1;
  out->push_back(
      {FindingKind::kStreams, free,
       trf("Cached for other streams only: {}", of_reserved(free, peak)),
       trf("At the end of the recording {} were free in segments of {} beside the main "
           "one. The allocator never gives a free block to another stream than its own.",
           format_bytes(free),
           others == 1 ? tr("one stream") : format_count(others) + tr(" streams")),
       tr("Allocate on the main stream and only use the tensors on the side stream (create the "
          "destination before `with torch.cuda.stream(...)`, then copy_), and use few long-lived "
          "streams instead of new ones. torch.cuda.empty_cache() after a stage returns what whole "
          "segments hold.")});
}

// Garbage collection frees cached blocks by age; each is a cudaFree, which waits for the device,
// and a cudaMalloc later.
void collection(const DeviceReport& report, const replay::TorchSettings& settings,
                std::vector<Finding>* out) {
  const uint64_t steps = report.steps.steps.size();
  if (settings.garbage_collection_threshold <= 0 || steps == 0 || report.device_frees < steps)
    return;
  out->push_back(
      {FindingKind::kFragmentation, 0,
       trf("Garbage collection of the cache returned {} in {}",
           counted(report.device_frees, "segment"), counted(steps, "step")),
       trf("garbage_collection_threshold is {}. Each segment returned is a cudaFree that "
           "waits for the GPU, and is mostly asked for again ({} device allocations).",
           settings.garbage_collection_threshold, format_count(report.device_allocs)),
       tr("Raise garbage_collection_threshold (0.9 or more) or remove it. It has no effect on "
          "expandable segments; if it was set against fragmentation, expandable_segments:True is "
          "the "
          "better remedy.")});
}

}  // namespace

void add_waste_findings(const trace::Trace& trace, const trace::DeviceTrace& device,
                        const DeviceReport& report, std::vector<Finding>* findings) {
  const Recorded recorded{replay::recorded_torch(trace), replay::recorded_vram(trace)};
  const bool assumed = matters(report.verdict.assumed_segment_bytes, kMinWasteShare,
                               report.peak.reserved.totals.reserved_bytes);
  if (!assumed) {
    better_setting(trace, report, findings);
    if (what_if_recommended(report) == nullptr) fragmentation(report, recorded, findings);
    rounding(report, recorded.torch, findings);
  }
  pending(report.at_reserved_peak, findings);
  other_streams(device, report, findings);
  collection(report, recorded.torch, findings);
}

namespace {

std::string outcome(const WhatIfs& replays, const WhatIf& own, const WhatIf& other) {
  const std::string_view doubt =
      other.basis == replay::Basis::kEstimate ? tr(" (an estimate)") : "";
  if (own.completed) {
    return trf("Replayed so, this program reserves {} at its peak instead of {}{}.",
               format_bytes(other.peak_reserved_bytes), format_bytes(own.peak_reserved_bytes),
               doubt);
  }
  const std::string limit = replays.capacity_bytes
                                ? fmt::format(" {} {}",
                                              replays.capacity_is_assumed ? tr("with no more than")
                                                                          : tr("at the limit of"),
                                              format_bytes(*replays.capacity_bytes))
                                : "";
  return trf("Replayed so{}, this program completes with {} reserved at its peak{}.", limit,
             format_bytes(other.peak_reserved_bytes), doubt);
}

}  // namespace

std::string recommended_setting(const trace::Trace& trace, const DeviceReport& report) {
  const WhatIf* best = what_if_recommended(report);
  const WhatIf* own = what_if_recorded(report);
  if (best == nullptr || own == nullptr) return "";
  const replay::AllocatorSpec spec = replay::parse_spec(best->allocator).value();
  const std::string before = replay::pytorch_conf(replay::recorded_spec(trace)).value_or("");
  std::string text =
      spec.settings.empty()
          ? trf("Remove `{}`: `{}` before Python starts.", before, replay::export_line(spec))
          : trf("Set `{}`{} before Python starts.", replay::export_line(spec),
                before.empty() ? "" : tr(" in place of `") + before + "`");
  text += " " + outcome(*report.what_if, *own, *best);
  for (const std::string& note : replay::setting_notes(spec)) text += trf(" Note: {}.", note);
  return text;
}

uint64_t recommended_saves(const DeviceReport& report) {
  const WhatIf* best = what_if_recommended(report);
  const WhatIf* own = what_if_recorded(report);
  if (best == nullptr || own == nullptr || !own->completed) return 0;
  return own->peak_reserved_bytes - best->peak_reserved_bytes;
}

}  // namespace vram::explain
