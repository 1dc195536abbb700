#include "replay/recorded_limit.hpp"

#include "base/bytes.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"
#include "replay/program.hpp"

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
constexpr size_t kMinFlips = 2;
constexpr size_t kMaxFlips = 24;

void lower(std::optional<uint64_t>& bound, uint64_t bytes) {
  bound = bound ? std::min(*bound, bytes) : bytes;
}

// After a decision about given_back: what was refused in the end.
void update_refused(Program& program) {
  LimitBounds& bounds = program.limit_bounds;
  bounds.fraction.smallest_refused_bytes = bounds.fraction.smallest_oom_bytes;
  bounds.device.smallest_refused_bytes = bounds.device.smallest_oom_bytes;
  for (const GivenBack& each : program.given_back) {
    if (each.fraction_bytes == 0 || program.ops[each.op].kind != OpKind::kGivenBack) continue;
    lower(bounds.fraction.smallest_refused_bytes, each.fraction_bytes);
    lower(bounds.device.smallest_refused_bytes, each.device_bytes);
  }
}

// Follows the sum of reserved bytes. Memory given back in the middle of a call that then takes
// memory, or ends in an OOM, means that the driver or a limit had refused the call's first attempt.
// Garbage collection gives back unasked, when reserved bytes pass a share of the limit: where it
// was on, OOMs alone are refusals.
class LimitScan {
 public:
  LimitScan(Program& program, const TorchSettings& settings) : program_(program), rules_(settings) {
    bounds().kinds_differ = settings.expandable_segments;
    for (const InitialSegment& segment : program.initial_segments) reserved_ += segment.size_bytes;
    may_have_begun_before_ = reserved_ > 0;
    grant_reserved();
    raise(bounds().fraction, reserved_);
  }
  // Memory of vram's pool: its pages move between blocks, so what goes is not given back.
  void see_vrams(const Event& event) {
    if (takes(event.kind)) reserved_ += event.size_bytes;
    if (gives_back(event.kind)) reserved_ -= std::min(reserved_, event.size_bytes);
    grant_reserved();
    raise(bounds().fraction, reserved_);
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
      grant_reserved();
    } else if (event.kind == EventKind::kOom) {
      see_oom(event);
      end_call();
    } else if (event.kind == EventKind::kAlloc) {
      if (has_taken_) see_served(event.size_bytes);
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
  static void raise(Bounds& bounds, uint64_t total_bytes) {
    bounds.largest_granted_bytes = std::max(bounds.largest_granted_bytes, total_bytes);
  }
  void grant_reserved() {
    program_.largest_reserved_bytes = std::max(program_.largest_reserved_bytes, reserved_);
    raise(bounds().device, reserved_);
  }
  [[nodiscard]] bool collects() const { return rules_.settings().garbage_collection_threshold > 0; }
  // What PyTorch compares with a memory fraction.
  [[nodiscard]] uint64_t segment_bytes(uint64_t requested_bytes) const {
    return rules_.segment_bytes(rules_.round(requested_bytes));
  }
  // What the device has to give at most.
  [[nodiscard]] uint64_t taken_bytes(uint64_t requested_bytes) const {
    if (!rules_.settings().expandable_segments) return segment_bytes(requested_bytes);
    const uint64_t size_bytes = rules_.round(requested_bytes);
    return round_up(size_bytes, rules_.granule_bytes(size_bytes <= kSmallRequestBytes));
  }
  // A device that had room did not refuse. Recorders that do not know what it had say 0.
  void see_oom(const Event& event) {
    const uint64_t device_free_bytes = event.address;
    lower(bounds().fraction.smallest_oom_bytes, reserved_ + segment_bytes(event.size_bytes));
    lower(bounds().device.smallest_oom_bytes, reserved_ + taken_bytes(event.size_bytes));
    if (device_free_bytes == 0) return;
    const uint64_t wanted =
        std::max(segment_bytes(event.size_bytes), taken_bytes(event.size_bytes));
    if (device_free_bytes >= wanted) bounds().device_had_room = true;
    lower(bounds().device_end_bytes, reserved_ + std::min(device_free_bytes, kMaxRequestBytes));
  }
  void see_served(uint64_t requested_bytes) {
    const uint64_t bytes = segment_bytes(requested_bytes);
    raise(bounds().fraction, first_taken_ + bytes);
    if (may_have_begun_before_) return;
    if (!collects()) {
      if (first_given_back_ > 0) note_given_back(bytes, taken_bytes(requested_bytes));
    } else if (first_given_back_ > 0) {
      lower(bounds().smallest_collected_bytes, first_given_back_);
    } else {
      kept_.push_back(first_taken_);
    }
  }
  void note_given_back(uint64_t for_fraction, uint64_t for_device) {
    auto& list = program_.given_back;
    const auto entry = std::ranges::lower_bound(list, given_back_event_, {}, &GivenBack::event);
    if (entry == list.end() || entry->event != given_back_event_) return;
    entry->fraction_bytes = first_given_back_ + for_fraction;
    entry->device_bytes = first_given_back_ + for_device;
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

// The largest limit between the bounds, and no larger than the device was. Segments come in
// multiples of 2 MiB: every limit from there down to the largest granted gives the same answers.
std::optional<uint64_t> between(const Bounds& bounds, std::optional<uint64_t> device_end_bytes) {
  if (!bounds.smallest_refused_bytes) return std::nullopt;
  uint64_t most = *bounds.smallest_refused_bytes - 1;
  if (device_end_bytes) most = std::min(most, *device_end_bytes);
  if (most < bounds.largest_granted_bytes) return std::nullopt;
  return std::max(bounds.largest_granted_bytes, most / (2 * kMiB) * (2 * kMiB));
}

// The limits that explain every refusal, the likelier first: two where it makes a difference, and
// no OOM tells, whether the device or a memory fraction refused.
std::vector<RecordedLimit> possible_limits(const LimitBounds& bounds) {
  std::vector<RecordedLimit> limits;
  const auto device = between(bounds.device, bounds.device_end_bytes);
  const auto fraction = between(bounds.fraction, bounds.device_end_bytes);
  const bool is_device = device && !(bounds.device_had_room && fraction);
  const bool is_known = !bounds.kinds_differ || bounds.device_end_bytes;
  if (is_device) limits.push_back({.bytes = *device, .is_fraction = false});
  if (fraction && !(is_device && is_known))
    limits.push_back({.bytes = *fraction, .is_fraction = true});
  return limits;
}

class LimitFit {
 public:
  LimitFit(const Program& program, const AllocatorSpec& recorded)
      : program_(program), recorded_(recorded) {}
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
    const RecordedLimit fraction{.bytes = limit, .is_fraction = true};
    const auto result = replay(program_, recorded_, options_under(fraction, program_));
    const uint64_t matched = result ? result->matched_calls : 0;
    is_done_ = matched == program_.recorded_calls.size() || (result && result->gave_up);
    if (matched <= max_matched_) return false;
    max_matched_ = matched;
    return true;
  }

  const Program& program_;
  const AllocatorSpec& recorded_;
  uint64_t max_matched_ = 0;
  bool is_done_ = false;
};

uint64_t share_of(uint64_t bytes, double threshold) {
  return static_cast<uint64_t>(static_cast<double>(bytes) / threshold);
}

// Only a memory fraction lets garbage collection act.
std::vector<RecordedLimit> fit_limits(const Program& program, const AllocatorSpec& recorded) {
  const LimitBounds& bounds = program.limit_bounds;
  const auto settings = parse_torch_settings(recorded.settings);
  const double threshold = settings ? settings->garbage_collection_threshold : 0;
  if (threshold <= 0 || !bounds.smallest_collected_bytes) return possible_limits(bounds);
  const uint64_t low = std::max(share_of(bounds.largest_kept_bytes, threshold),
                                bounds.fraction.largest_granted_bytes);
  uint64_t high = share_of(*bounds.smallest_collected_bytes, threshold);
  if (bounds.fraction.smallest_refused_bytes)
    high = std::min(high, *bounds.fraction.smallest_refused_bytes);
  if (bounds.device_end_bytes) high = std::min(high, *bounds.device_end_bytes);
  if (high <= low) return possible_limits(bounds);
  const uint64_t bytes = LimitFit(program, recorded).find(low, high);
  return std::vector{RecordedLimit{.bytes = bytes, .is_fraction = true}};
}

// Takes given_back for emptied caches, from where the replay leaves the recording, as long as it
// then follows it farther; and the rest, too, if that does not hurt: a program that empties its
// cache often does so.
class CacheFit {
 public:
  CacheFit(Program& program, const AllocatorSpec& recorded)
      : program_(program), recorded_(recorded) {}
  std::optional<RecordedLimit> settle() {
    replay_now(0);
    bool has_flipped = false;
    const size_t affordable = kOpsForFlips / std::max<size_t>(program_.ops.size(), 1);
    const size_t most = std::clamp(affordable, kMinFlips, kMaxFlips);
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
  bool replay_now(uint64_t min_matched) {
    update_refused(program_);
    std::vector<std::optional<RecordedLimit>> limits;
    for (const RecordedLimit& limit : fit_limits(program_, recorded_)) limits.emplace_back(limit);
    if (limits.empty()) limits.emplace_back();
    bool is_better = false;
    for (const auto& limit : limits) {
      const auto matched = matched_at(limit);
      if (!matched || *matched < (is_better ? matched_ + 1 : min_matched)) continue;
      matched_ = *matched;
      limit_ = limit;
      is_better = true;
    }
    return is_better;
  }
  [[nodiscard]] std::optional<uint64_t> matched_at(const std::optional<RecordedLimit>& limit) {
    const auto result = replay(program_, recorded_, options_under(limit, program_));
    if (!result || result->gave_up) return std::nullopt;
    return result->matched_calls;
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
  void flip_rest(uint64_t min_matched) {
    std::vector<size_t> rest;
    for (size_t i = 0; i < program_.given_back.size(); ++i) {
      if (is_undecided(program_.given_back[i])) rest.push_back(i);
    }
    if (!rest.empty()) try_flip(rest, min_matched);
  }
  bool try_flip(const std::vector<size_t>& entries, uint64_t min_matched) {
    set(entries, OpKind::kEmptyCache);
    if (replay_now(min_matched)) return true;
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
  std::optional<RecordedLimit> limit_;
  uint64_t matched_ = 0;
};

std::optional<RecordedLimit> likeliest(const std::vector<RecordedLimit>& limits) {
  return limits.empty() ? std::nullopt : std::optional(limits.front());
}

}  // namespace

uint64_t max_driver_calls_of(const Program& program) { return 1'000'000 + 16 * program.ops.size(); }

ReplayOptions options_under(const std::optional<RecordedLimit>& limit, const Program& program) {
  ReplayOptions options;
  if (limit) {
    options.capacity_bytes = limit->bytes;
    options.capacity_is_fraction = limit->is_fraction;
  }
  options.curve_slices = 0;
  options.address_layouts = 1;
  options.max_driver_calls = max_driver_calls_of(program);
  return options;
}

void read_limit_bounds(const trace::Trace& trace, const trace::DeviceTrace& device,
                       Program& program) {
  LimitScan scan(program, recorded_torch(trace));
  const std::span<const Event> events = trace.events_of(device);
  for (uint32_t i = 0; i < events.size(); ++i) {
    if (trace::is_segment_event(events[i].kind) && is_of_vram(trace.tables, events[i].context)) {
      scan.see_vrams(events[i]);
    } else {
      scan.see(events[i], i);
    }
  }
  scan.finish();
}

std::optional<RecordedLimit> recorded_limit(const Program& program) {
  return likeliest(possible_limits(program.limit_bounds));
}

std::optional<RecordedLimit> settle_recorded(Program& program, const AllocatorSpec& recorded) {
  const auto limit = program.given_back.empty() ? likeliest(fit_limits(program, recorded))
                                                : CacheFit(program, recorded).settle();
  const uint64_t had_bytes = program.largest_reserved_bytes;
  if (limit || !program.limit_bounds.has_refused() || had_bytes == 0) return limit;
  return RecordedLimit{.bytes = had_bytes, .is_fraction = false, .is_assumed = true};
}

}  // namespace vram::replay
