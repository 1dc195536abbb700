#include "replay/recorded_limit.hpp"

#include "base/bytes.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"
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
// Replays of so many ops in all take a few seconds.
constexpr size_t kOpsForFlips = 40'000'000;
constexpr size_t kLeastFlips = 2;
constexpr size_t kMostFlips = 24;

void lower(std::optional<uint64_t>& bound, uint64_t bytes) {
  bound = bound ? std::min(*bound, bytes) : bytes;
}

// After a decision about given_back: what was refused in the end.
void update_refused(Program& program) {
  LimitBounds& bounds = program.limit_bounds;
  bounds.smallest_refused_bytes = bounds.smallest_oom_bytes;
  for (const GivenBack& each : program.given_back) {
    if (each.total_bytes > 0 && program.ops[each.op].kind == OpKind::kGivenBack)
      lower(bounds.smallest_refused_bytes, each.total_bytes);
  }
}

// Follows the sum of reserved bytes. Memory given back in the middle of a call that then takes
// memory, or ends in an OOM, means that the driver or a limit had refused the call's first attempt.
// Garbage collection gives back unasked, when reserved bytes pass a share of the limit: where it
// was on, OOMs alone are refusals.
class LimitScan {
 public:
  LimitScan(Program& program, const TorchSettings& settings) : program_(program), rules_(settings) {
    for (const InitialSegment& segment : program.initial_segments) reserved_ += segment.size_bytes;
    may_have_begun_before_ = reserved_ > 0;
    program_.largest_reserved_bytes = reserved_;
    bounds().largest_granted_bytes = reserved_;
  }
  // Memory of vram's pool: its pages move between blocks, so what goes is not given back.
  void see_vrams(const Event& event) {
    if (takes(event.kind)) reserved_ += event.size_bytes;
    if (gives_back(event.kind)) reserved_ -= std::min(reserved_, event.size_bytes);
    program_.largest_reserved_bytes = std::max(program_.largest_reserved_bytes, reserved_);
    bounds().largest_granted_bytes = std::max(bounds().largest_granted_bytes, reserved_);
  }
  void see(const Event& event, uint32_t number) {
    if (gives_back(event.kind)) {
      if (first_given_back_ == 0) {
        first_given_back_ = reserved_;
        given_back_event_ = number;
      }
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
    update_refused(program_);
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
    if (may_have_begun_before_) return;
    if (!collects()) {
      if (first_given_back_ > 0) note_given_back(first_given_back_ + bytes);
    } else if (first_given_back_ > 0) {
      lower(bounds().smallest_collected_bytes, first_given_back_);
    } else {
      kept_.push_back(first_taken_);
    }
  }
  void refuse(uint64_t total_bytes) { lower(bounds().smallest_oom_bytes, total_bytes); }
  void note_given_back(uint64_t total_bytes) {
    auto& list = program_.given_back;
    const auto entry = std::ranges::lower_bound(list, given_back_event_, {}, &GivenBack::event);
    if (entry != list.end() && entry->event == given_back_event_) entry->total_bytes = total_bytes;
  }
  void end_call() {
    first_given_back_ = first_taken_ = 0;
    has_taken_ = may_have_begun_before_ = false;
  }

  Program& program_;
  TorchRules rules_;
  uint64_t reserved_ = 0;
  bool has_taken_ = false;
  // The call under way may have given back more, before the first event.
  bool may_have_begun_before_ = false;
  uint64_t first_given_back_ = 0;  // reserved when the call under way first gave back; 0: not yet
  uint32_t given_back_event_ = 0;
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

std::optional<uint64_t> fit_limit(const Program& program, const AllocatorSpec& recorded) {
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

// Takes given_back for emptied caches, from where the replay leaves the recording, as long as it
// then follows it farther; and the rest, too, if that does not hurt: a program that empties its
// cache does so often.
class CacheFit {
 public:
  CacheFit(Program& program, const AllocatorSpec& recorded)
      : program_(program), recorded_(recorded) {}
  std::optional<uint64_t> settle() {
    replay_now(0);
    bool has_flipped = false;
    const size_t affordable = kOpsForFlips / std::max<size_t>(program_.ops.size(), 1);
    const size_t most = std::clamp(affordable, kLeastFlips, kMostFlips);
    for (size_t i = 0; i < most && !is_done() && flip_next(); ++i) {
      if (!has_flipped) flip_rest(matched_ + 1);
      has_flipped = true;
    }
    if (has_flipped) flip_rest(matched_);
    return limit_;
  }

 private:
  [[nodiscard]] bool is_done() const { return matched_ >= program_.recorded_calls.size(); }
  // True, and that is what counts now, when the replay follows the recording that far.
  bool replay_now(uint64_t least_matched) {
    update_refused(program_);
    const auto limit = fit_limit(program_, recorded_);
    ReplayOptions options;
    options.capacity_bytes = limit;
    options.curve_slices = 0;
    options.address_layouts = 1;
    const auto result = replay(program_, recorded_, options);
    if (!result || result->matched_calls < least_matched) return false;
    matched_ = result->matched_calls;
    limit_ = limit;
    return true;
  }
  // The last undecided one before the call that did not come out.
  bool flip_next() {
    const uint32_t event = program_.recorded_calls[matched_].event;
    for (size_t i = program_.given_back.size(); i-- > 0;) {
      const GivenBack& each = program_.given_back[i];
      if (each.event <= event && is_undecided(each)) return try_flip({i}, matched_ + 1);
    }
    return false;
  }
  void flip_rest(uint64_t least_matched) {
    std::vector<size_t> rest;
    for (size_t i = 0; i < program_.given_back.size(); ++i) {
      if (is_undecided(program_.given_back[i])) rest.push_back(i);
    }
    if (!rest.empty()) try_flip(rest, least_matched);
  }
  bool try_flip(const std::vector<size_t>& entries, uint64_t least_matched) {
    set(entries, OpKind::kEmptyCache);
    if (replay_now(least_matched)) return true;
    set(entries, OpKind::kGivenBack);
    update_refused(program_);
    return false;
  }
  void set(const std::vector<size_t>& entries, OpKind kind) {
    for (const size_t i : entries) program_.ops[program_.given_back[i].op].kind = kind;
  }
  [[nodiscard]] bool is_undecided(const GivenBack& each) const {
    return program_.ops[each.op].kind == OpKind::kGivenBack;
  }

  Program& program_;
  const AllocatorSpec& recorded_;
  std::optional<uint64_t> limit_;
  uint64_t matched_ = 0;
};

}  // namespace

void read_limit_bounds(const trace::Trace& trace, const trace::DeviceTrace& device,
                       Program& program) {
  LimitScan scan(program, recorded_torch(trace));
  const std::span<const Event> events = trace.events_of(device);
  for (uint32_t i = 0; i < events.size(); ++i) {
    if (trace::is_segment_event(events[i].kind) && is_vrams(trace.tables, events[i].context)) {
      scan.see_vrams(events[i]);
    } else {
      scan.see(events[i], i);
    }
  }
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

std::optional<uint64_t> settle_recorded(Program& program, const AllocatorSpec& recorded) {
  if (program.given_back.empty()) return fit_limit(program, recorded);
  return CacheFit(program, recorded).settle();
}

}  // namespace vram::replay
