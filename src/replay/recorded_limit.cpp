#include "replay/recorded_limit.hpp"

#include "base/bytes.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/recorded_segments.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace vram::replay {
namespace {

using trace::Event;
using trace::EventKind;

constexpr int kFitRounds = 4;
constexpr uint64_t kFitPoints = 8;

// Follows the sum of reserved bytes. Memory given back in the middle of a call that then takes
// memory, or ends in an OOM, means that the driver or a limit had refused the call's first attempt.
// Garbage collection gives back unasked, when reserved bytes pass a share of the limit: where it
// was on, OOMs alone are refusals.
class LimitScan {
 public:
  LimitScan(Program& program, const TorchSettings& settings) : program_(program), rules_(settings) {
    for (const InitialSegment& segment : program.initial_segments) reserved_ += segment.size_bytes;
    program_.largest_reserved_bytes = reserved_;
    bounds().largest_granted_bytes = reserved_;
  }
  void see(const Event& event) {
    if (gives_back(event.kind)) {
      if (first_given_back_ == 0) first_given_back_ = reserved_;
      reserved_ -= std::min(reserved_, event.size_bytes);
    } else if (takes(event.kind)) {
      if (first_taken_ == 0) first_taken_ = reserved_;
      has_taken_ = true;
      reserved_ += event.size_bytes;
      program_.largest_reserved_bytes = std::max(program_.largest_reserved_bytes, reserved_);
    } else if (event.kind == EventKind::kOom) {
      refuse(std::max(reserved_, first_given_back_) + segment_bytes(event.size_bytes));
      refuse(reserved_ + segment_bytes(event.size_bytes));
      end_call();
    } else if (event.kind == EventKind::kAlloc) {
      if (has_taken_) see_served(segment_bytes(event.size_bytes));
      end_call();
    } else if (event.kind != EventKind::kFreeCompleted) {
      end_call();
    }
  }
  void finish() {
    if (!bounds().smallest_collected_bytes) return;
    for (const uint64_t kept : kept_) {
      if (kept < *bounds().smallest_collected_bytes)
        bounds().largest_kept_bytes = std::max(bounds().largest_kept_bytes, kept);
    }
  }

 private:
  LimitBounds& bounds() { return program_.limit_bounds; }
  [[nodiscard]] bool collects() const { return rules_.settings().garbage_collection_threshold > 0; }
  // What PyTorch compares with a limit, also where expandable segments map less.
  [[nodiscard]] uint64_t segment_bytes(uint64_t requested_bytes) const {
    return rules_.segment_bytes(rules_.round(requested_bytes));
  }
  void see_served(uint64_t bytes) {
    bounds().largest_granted_bytes = std::max(bounds().largest_granted_bytes, first_taken_ + bytes);
    if (!collects()) {
      if (first_given_back_ > 0) refuse(first_given_back_ + bytes);
    } else if (first_given_back_ > 0) {
      lower(bounds().smallest_collected_bytes, first_given_back_);
    } else {
      kept_.push_back(first_taken_);
    }
  }
  void refuse(uint64_t total_bytes) { lower(bounds().smallest_refused_bytes, total_bytes); }
  static void lower(std::optional<uint64_t>& bound, uint64_t bytes) {
    bound = bound ? std::min(*bound, bytes) : bytes;
  }
  void end_call() {
    first_given_back_ = first_taken_ = 0;
    has_taken_ = false;
  }

  Program& program_;
  TorchRules rules_;
  uint64_t reserved_ = 0;
  bool has_taken_ = false;
  uint64_t first_given_back_ = 0;  // reserved when the call under way first gave back; 0: not yet
  uint64_t first_taken_ = 0;
  std::vector<uint64_t> kept_;  // reserved where memory was taken and nothing was collected
};

class LimitFit {
 public:
  LimitFit(const Program& program, const AllocatorSpec& recorded)
      : program_(program), recorded_(recorded) {
    options_.curve_slices = 0;
    options_.address_layouts = 1;
  }
  // Between low and high, ever closer around the limit that the replay likes best.
  uint64_t find(uint64_t low, uint64_t high) {
    uint64_t best = low;
    for (int round = 0; round < kFitRounds && !is_done_; ++round) {
      const uint64_t step = std::max<uint64_t>((high - low) / kFitPoints, 1);
      for (uint64_t limit = low; limit <= high && !is_done_; limit += step) {
        if (improves(limit)) best = limit;
      }
      low = best > low + step ? best - step : low;
      high = std::min(high, best + step);
    }
    return best;
  }

 private:
  bool improves(uint64_t limit) {
    options_.capacity_bytes = limit;
    const auto result = replay(program_, recorded_, options_);
    const uint64_t matched = result ? result->matched_calls : 0;
    is_done_ = matched == program_.recorded_calls.size();
    if (matched <= most_matched_) return false;
    most_matched_ = matched;
    return true;
  }

  const Program& program_;
  const AllocatorSpec& recorded_;
  ReplayOptions options_;
  uint64_t most_matched_ = 0;
  bool is_done_ = false;
};

uint64_t share_of(uint64_t bytes, double threshold) {
  return static_cast<uint64_t>(static_cast<double>(bytes) / threshold);
}

}  // namespace

void read_limit_bounds(const trace::Trace& trace, const trace::DeviceTrace& device,
                       Program& program) {
  LimitScan scan(program, recorded_torch(trace));
  for (const Event& event : trace.events_of(device)) scan.see(event);
  scan.finish();
}

std::optional<uint64_t> recorded_limit(const Program& program) {
  const LimitBounds& bounds = program.limit_bounds;
  if (!bounds.smallest_refused_bytes) return std::nullopt;
  const uint64_t refused = *bounds.smallest_refused_bytes;
  if (refused <= bounds.largest_granted_bytes) return std::nullopt;
  // Segments come in multiples of 2 MiB: every limit between the bounds gives the same answers.
  return std::max(bounds.largest_granted_bytes, (refused - 1) / (2 * kMiB) * (2 * kMiB));
}

std::optional<uint64_t> fit_recorded_limit(const Program& program, const AllocatorSpec& recorded) {
  const LimitBounds& bounds = program.limit_bounds;
  const auto settings = parse_torch_settings(recorded.settings);
  const double threshold = settings ? settings->garbage_collection_threshold : 0;
  if (threshold <= 0 || !bounds.smallest_collected_bytes) return recorded_limit(program);
  const uint64_t low =
      std::max(share_of(bounds.largest_kept_bytes, threshold), bounds.largest_granted_bytes);
  uint64_t high = share_of(*bounds.smallest_collected_bytes, threshold);
  if (bounds.smallest_refused_bytes) high = std::min(high, *bounds.smallest_refused_bytes);
  if (high <= low) return recorded_limit(program);
  return LimitFit(program, recorded).find(low, high);
}

}  // namespace vram::replay
