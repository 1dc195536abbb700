#include "explain/findings/findings_waste.hpp"

#include "base/bytes.hpp"
#include "explain/findings/findings.hpp"
#include "explain/findings/replayed.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"

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

constexpr const char* kSetExpandable = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
constexpr size_t kNamedPinners = 3;

std::string of_reserved(uint64_t bytes, uint64_t reserved) {
  return fmt::format("{} ({} of reserved)", format_bytes(bytes), format_share(bytes, reserved));
}

std::string pinned_by(const std::vector<Pinner>& pinners) {
  std::string text;
  for (size_t i = 0; i < std::min(pinners.size(), kNamedPinners); ++i) {
    const Pinner& p = pinners[i];
    text += fmt::format("{}{} ({} keep {} from use)", i == 0 ? " Held open by " : ", ", p.name,
                        format_bytes(p.pinned_bytes), format_bytes(p.stranded_bytes));
  }
  return text.empty() ? text : text + ".";
}

// Expandable segments grow at their end instead of taking a new segment beside the holes of the old
// ones. What stays is holes smaller than a page of 20 MiB and memory of other streams.
std::string fragmentation_advice(const DeviceReport& report, const Recorded& recorded) {
  if (recorded.is_vram) {
    return "vram's pool shows holes as one range before it takes more, so they serve what comes "
           "next, up to its slack (`vram tune` and docs/pool.md). Fewer different shapes (padding "
           "to buckets) leave fewer holes.";
  }
  const replay::TorchSettings& settings = recorded.torch;
  if (settings.expandable_segments && settings.has_max_split()) {
    return "Remove max_split_size_mb: together with expandable_segments its size rules reject free "
           "blocks that would fit, and reserved memory can grow without end.";
  }
  if (settings.expandable_segments) {
    return "expandable_segments is on already. Allocate what lives long (the blocks named above) "
           "before the first step, so that it does not settle between short-lived blocks; fewer "
           "different shapes (padding to buckets) leave fewer holes.";
  }
  if (expandable_helps(report) == Help::kNo) {
    return "expandable_segments would not help here." + replayed_with_expandable(report) +
           " Fewer different shapes (padding to buckets) and long-lived blocks allocated first "
           "leave fewer holes; `vram tune` tries other settings.";
  }
  if (settings.has_max_split()) {
    return fmt::format(
               "Remove max_split_size_mb ({}), which keeps larger blocks whole for requests of "
               "their own size, and set `{}` instead: segments grow in place and holes join.",
               format_bytes(settings.max_split_bytes), kSetExpandable) +
           replayed_with_expandable(report);
  }
  return fmt::format(
      "Set `{}` before Python starts. Segments then grow in place, so a larger request extends a "
      "hole at the end instead of taking a new segment. Not for tensors shared with other "
      "processes by CUDA IPC in containers, nor on Windows and Jetson.{}",
      kSetExpandable, replayed_with_expandable(report));
}

void fragmentation(const DeviceReport& report, const Recorded& recorded,
                   std::vector<Finding>* out) {
  const State& state = report.at_reserved_peak;
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  const Waste& waste = state.waste;
  if (!matters(waste.stranded_bytes, kMinWasteShare, reserved)) return;
  out->push_back(
      {FindingKind::kFragmentation, waste.stranded_bytes,
       fmt::format("Fragmentation strands {}", of_reserved(waste.stranded_bytes, reserved)),
       fmt::format("When most memory was reserved ({}), {} holes in segments that live blocks hold "
                   "open added up to {}; the largest free block was {}.{}",
                   format_bytes(reserved), format_count(waste.hole_count),
                   format_bytes(waste.stranded_bytes), format_bytes(waste.largest_hole_bytes),
                   pinned_by(state.pinners)),
       fragmentation_advice(report, recorded)});
}

// Do the steady steps need different amounts? Then their shapes change.
bool shapes_change(const Steps& steps) {
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;
  for (size_t i = steps.warmup_count; i < steps.steps.size(); ++i) {
    least = std::min(least, steps.steps[i].peak_requested_bytes);
    most = std::max(most, steps.steps[i].peak_requested_bytes);
  }
  return most > least && matters(most - least, kMinWasteShare, most);
}

// A segment was taken from the driver while these lay free: none of them fitted.
std::string releasable_advice(const DeviceReport& report, const Recorded& recorded) {
  if (recorded.is_vram) {
    return "Nothing, if this process has the GPU to itself: the pool uses it for what comes next, "
           "and gives it back before it fails. Others on the GPU get it by "
           "torch.cuda.empty_cache(), or vram_trim() in C.";
  }
  const replay::TorchSettings& settings = recorded.torch;
  if (settings.has_max_split()) {
    return fmt::format(
        "Remove max_split_size_mb ({}): larger segments are never split, so each serves requests "
        "of about its own size only, and every new shape takes another. Against fragmentation set "
        "`{}` instead.{}",
        format_bytes(settings.max_split_bytes), kSetExpandable, replayed_with_expandable(report));
  }
  if (!settings.expandable_segments && shapes_change(report.steps) &&
      expandable_helps(report) != Help::kNo) {
    return fmt::format(
        "Steps need different sizes here, and a free segment of one size is no use to a larger "
        "request. Set `{}` before Python starts: one segment then grows and serves all sizes.{} "
        "Padding to a few shapes helps too, and so does running the largest batch first.",
        kSetExpandable, replayed_with_expandable(report));
  }
  return "Nothing, if this process has the GPU to itself: PyTorch reuses these segments, and "
         "releases them itself before it fails. For other processes or libraries on the GPU, "
         "torch.cuda.empty_cache() once between stages (after warm-up, between training and "
         "evaluation) gives them back; in every step it only makes the allocator ask the driver "
         "again.";
}

void releasable(const DeviceReport& report, const Recorded& recorded, std::vector<Finding>* out) {
  const State& state = report.at_reserved_peak;
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  const uint64_t bytes = state.waste.releasable_bytes;
  if (!matters(bytes, kMinReleasableShare, reserved)) return;
  out->push_back({FindingKind::kReleasable, bytes,
                  fmt::format("Cache in whole free segments: {}", of_reserved(bytes, reserved)),
                  fmt::format("When most memory was reserved ({}), {} of it lay in segments "
                              "without a single live block.",
                              format_bytes(reserved), format_bytes(bytes)),
                  releasable_advice(report, recorded)});
}

void pending(const State& state, std::vector<Finding>* out) {
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  const uint64_t bytes = state.waste.pending_bytes;
  if (!matters(bytes, kMinWasteShare, reserved)) return;
  out->push_back(
      {FindingKind::kPending, bytes,
       fmt::format("Freed but awaited by other streams: {}", of_reserved(bytes, reserved)),
       fmt::format("{} were freed by the program but had been used on another stream "
                   "(Tensor.record_stream), and come back only when an allocation after that "
                   "stream's work finds them done.",
                   format_bytes(bytes)),
       "Let the side stream run less far ahead (prefetch one batch, not several). Or drop "
       "record_stream: keep a reference to the tensor until the stream that allocated it has "
       "waited for the one that used it (stream.wait_stream or an event); then its memory is "
       "reused at once."});
}

// Of roundup_power2_divisions; 0 and 1 mean off.
uint64_t largest_divisions(const replay::TorchSettings& settings) {
  return *std::ranges::max_element(settings.divisions);
}

std::string rounding_advice(const replay::TorchSettings& settings) {
  if (largest_divisions(settings) > 1) {
    return "Remove roundup_power2_divisions from PYTORCH_CUDA_ALLOC_CONF, or raise its number: "
           "sizes are rounded up to the next part of a power of two, and more divisions round "
           "less. It pays only where shapes change so much that blocks are rarely reused.";
  }
  return "Blocks are multiples of 512 bytes, and free blocks are not split when up to 1 MiB would "
         "remain. Keep many small tensors in one flat buffer (fused or foreach optimizers, "
         "concatenated parameters); a setting cannot help.";
}

void rounding(const State& state, const replay::TorchSettings& settings,
              std::vector<Finding>* out) {
  const uint64_t reserved = state.moment.totals.reserved_bytes;
  const uint64_t bytes = state.waste.rounding_bytes;
  if (!matters(bytes, kMinWasteShare, reserved)) return;
  const std::string why =
      largest_divisions(settings) > 1
          ? fmt::format("roundup_power2_divisions is set ({})", largest_divisions(settings))
          : fmt::format("{} blocks were live", format_count(state.block_count));
  out->push_back(
      {FindingKind::kRounding, bytes,
       fmt::format("Rounding wastes {}", of_reserved(bytes, reserved)),
       fmt::format("Blocks were {} larger than what was asked for; {}.", format_bytes(bytes), why),
       rounding_advice(settings)});
}

// Free blocks serve only the stream they were first allocated on. Known for the end of the
// recording.
void other_streams(const trace::DeviceTrace& device, const DeviceReport& report,
                   std::vector<Finding>* out) {
  if (!device.has_end_state) return;
  struct Held {
    uint64_t reserved = 0;
    uint64_t free = 0;
  };
  std::map<trace::StreamId, Held> by_stream;
  for (const trace::Segment& s : device.segments) {
    Held& held = by_stream[s.stream];
    held.reserved += s.size_bytes;
    for (uint64_t b = s.first_block; b < s.first_block + s.block_count && b < device.blocks.size();
         ++b) {
      if (device.blocks[b].state == trace::BlockState::kInactive)
        held.free += device.blocks[b].size_bytes;
    }
  }
  if (by_stream.size() < 2) return;
  const auto main = std::max_element(
      by_stream.begin(), by_stream.end(),
      [](const auto& a, const auto& b) { return a.second.reserved < b.second.reserved; });
  uint64_t free = 0;
  for (const auto& [stream, held] : by_stream) free += stream == main->first ? 0 : held.free;
  const uint64_t peak = report.peak.reserved.totals.reserved_bytes;
  if (!matters(free, kMinWasteShare, peak)) return;
  out->push_back(
      {FindingKind::kStreams, free,
       fmt::format("Cached for other streams only: {}", of_reserved(free, peak)),
       fmt::format(
           "At the end of the recording {} were free in segments of {} streams beside the main "
           "one. The allocator never gives a free block to another stream than its own.",
           format_bytes(free), by_stream.size() - 1),
       "Allocate on the main stream and only use the tensors on the side stream (create the "
       "destination before `with torch.cuda.stream(...)`, then copy_), and use few long-lived "
       "streams instead of new ones. torch.cuda.empty_cache() after a stage returns what whole "
       "segments hold."});
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
       fmt::format("Garbage collection of the cache returned {} segments in {} steps",
                   format_count(report.device_frees), format_count(steps)),
       fmt::format("garbage_collection_threshold is {}. Each segment returned is a cudaFree that "
                   "waits for the GPU, and is mostly asked for again ({} device allocations).",
                   settings.garbage_collection_threshold, format_count(report.device_allocs)),
       "Raise garbage_collection_threshold (0.9 or more) or remove it. It has no effect on "
       "expandable segments; if it was set against fragmentation, expandable_segments:True is the "
       "better remedy."});
}

}  // namespace

void add_waste_findings(const trace::Trace& trace, const trace::DeviceTrace& device,
                        const DeviceReport& report, std::vector<Finding>* findings) {
  const Recorded recorded{replay::recorded_torch(trace), replay::recorded_vram(trace)};
  fragmentation(report, recorded, findings);
  releasable(report, recorded, findings);
  pending(report.at_reserved_peak, findings);
  rounding(report.at_reserved_peak, recorded.torch, findings);
  other_streams(device, report, findings);
  collection(report, recorded.torch, findings);
}

}  // namespace vram::explain
