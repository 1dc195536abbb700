#include "replay/run.hpp"

#include "base/bytes.hpp"
#include "replay/program.hpp"

#include <algorithm>
#include <optional>

namespace vram::replay {
namespace {

// The most that was held at any time in each of equal slices of the recorded time, also by what was
// there before the slice began; by ops where there is no clock.
class CurveTaker {
 public:
  CurveTaker(const Program& program, uint32_t slices)
      : by_time_(program.duration_ns > 0),
        length_(by_time_ ? program.duration_ns + 1 : static_cast<int64_t>(program.ops.size())) {
    if (slices == 0 || length_ == 0) return;
    slice_ = (length_ + slices - 1) / slices;
    next_ = slice_;
    curve_.reserve(slices);
  }
  void take(size_t op, int64_t time_ns, const Usage& usage) {
    if (slice_ == 0) return;
    close_until(std::min(by_time_ ? time_ns : static_cast<int64_t>(op), length_ - 1));
    last_.requested_bytes = usage.requested_bytes;
    last_.reserved_bytes = usage.reserved_bytes;
    highest_.requested_bytes = std::max(highest_.requested_bytes, usage.requested_bytes);
    highest_.reserved_bytes = std::max(highest_.reserved_bytes, usage.reserved_bytes);
  }
  // Of a replay that ended early, up to there.
  std::vector<CurvePoint> finish(bool to_the_end) {
    if (slice_ == 0) return {};
    if (to_the_end) close_until(length_ - 1);
    curve_.push_back(highest_);
    return std::move(curve_);
  }

 private:
  void close_until(int64_t now) {
    for (; next_ <= now; next_ += slice_) {
      curve_.push_back(highest_);
      highest_ = last_;
      highest_.time_ns = by_time_ ? next_ : 0;
    }
  }
  bool by_time_;
  int64_t length_;
  int64_t slice_ = 0;  // 0: no curve
  int64_t next_ = 0;
  CurvePoint highest_;
  CurvePoint last_;
  std::vector<CurvePoint> curve_;
};

class Run {
 public:
  Run(const Program& program, const ReplayOptions& options, const Peer& peer,
      const AllocatorSpec& spec)
      : program_(program),
        gpu_(sim_options(program, options, peer)),
        segments_(gpu_, program, options.address_layout > 0 && program.has_assumed_addresses),
        allocator_(peer.make(spec.settings, {.program = program,
                                             .segments = segments_,
                                             .limit_bytes = options.capacity_bytes,
                                             .limit_is_fraction = options.capacity_is_fraction,
                                             .lag_ns = options.lag_ns})),
        max_driver_calls_(options.max_driver_calls.value_or(UINT64_MAX)),
        caught_until_(ops_until_last_allocation(program)),
        curve_(program, options.curve_slices) {
    result_.allocator = spec.to_string();
    result_.model = peer.is_model;
    result_.model_note = peer.model_note;
    result_.capacity_bytes = options.capacity_bytes;
    result_.start = start_of(program, *allocator_);
    result_.start_reserved_bytes = allocator_->usage().reserved_bytes;
    segments_.begin_program();
  }

  ReplayResult go() {
    const Usage& usage = allocator_->usage();
    result_.completed = true;
    take_peaks(usage);
    size_t done = allocator_->holds_initial_blocks() ? program_.initial_ops : 0;
    curve_.take(0, 0, usage);
    for (; done < program_.ops.size(); ++done) {
      const bool goes_on = begins_choice(done) ? choose(done) : step(done);
      if (!goes_on) break;
      const Op& op = program_.ops[done];
      if (op.kind == OpKind::kAlloc && gives_up()) break;
      if (op.kind == OpKind::kAlloc) take_peaks(usage);
      curve_.take(done, op.time_ns, usage);
    }
    finish();
    result_.curve = curve_.finish(done == program_.ops.size());
    return std::move(result_);
  }
  [[nodiscard]] const std::vector<DriverCall>& log() const { return segments_.log(); }

 private:
  static gpu::SimOptions sim_options(const Program& program, const ReplayOptions& options,
                                     const Peer& peer) {
    gpu::SimOptions sim;
    sim.address_layout = options.address_layout;
    sim.places_anywhere = !knows_addresses(program);
    const bool is_fraction = options.capacity_is_fraction && peer.has_memory_fraction;
    const bool ends_there = options.capacity_bytes && !is_fraction;
    const uint64_t end = ends_there ? *options.capacity_bytes : kMaxDeviceBytes;
    sim.devices = {gpu::SimDevice{.capacity_bytes = end}};
    return sim;
  }

  static bool knows_addresses(const Program& program) {
    return !program.recorded_calls.empty() && !program.has_assumed_addresses;
  }

  static Start start_of(const Program& program, const Allocator& allocator) {
    if (program.initial_blocks.empty()) return Start::kBeginning;
    return allocator.holds_initial_blocks() ? Start::kRecorded : Start::kModel;
  }

  bool gives_up() {
    result_.gave_up = gpu_.stats().count() > max_driver_calls_;
    if (result_.gave_up) result_.completed = false;
    return result_.gave_up;
  }

  bool begins_choice(size_t op) const {
    return next_choice_ < program_.choices.size() && program_.choices[next_choice_].first_op == op;
  }

  // As step(), for the ops of a choice, of which `done` is the first, and the last afterwards.
  bool choose(size_t& done) {
    const Choice& choice = program_.choices[next_choice_++];
    if (got_.size() <= choice.number) got_.resize(choice.number + 1);
    std::optional<uint64_t>& got = got_[choice.number];
    const Op* const ops = &program_.ops[done];
    done += choice.refused_ops;
    const auto refusal = [&](uint32_t i) {
      Op op = ops[i];
      op.block = ops[choice.refused_ops].block;
      const auto oom = alloc(op);
      if (!oom) got = op.size_bytes;
      return oom;
    };
    for (uint32_t i = 1; i <= choice.refused_ops; ++i) {
      if (ops[i].size_bytes != got) continue;
      const auto oom = refusal(i);
      if (!oom) return true;
      note_caught(*oom);
      break;
    }
    for (uint32_t i = 0; i < choice.refused_ops; ++i) {
      const auto oom = refusal(i);
      if (!oom) return true;
      note_caught(*oom);
    }
    const auto oom = refusal(choice.refused_ops);
    return oom ? run_out(*oom) : true;
  }
  void note_caught(const ReplayOom& oom) {
    if (++result_.caught_ooms == 1) result_.caught_oom = oom;
  }

  // False where the program cannot go on.
  bool step(size_t done) {
    const Op& op = program_.ops[done];
    switch (op.kind) {
      case OpKind::kFree:
        allocator_->free(op.block, op.time_ns);
        return true;
      case OpKind::kFreeLater:
        allocator_->free_later(op.block, op.time_ns);
        return true;
      case OpKind::kComplete:
        allocator_->complete(op.block, op.time_ns);
        return true;
      case OpKind::kGivenBack:
        return true;
      case OpKind::kEmptyCache:
        segments_.set_event(op.event);
        allocator_->empty_cache();
        return true;
      case OpKind::kAlloc:
        if (const auto oom = alloc(op)) return run_out(*oom);
        return true;
      case OpKind::kRefused:
        break;
    }
    // The recorded program continued without this block, and so does this one, whether it gets it
    // or not.
    if (const auto oom = alloc(op)) {
      if (done >= caught_until_) {
        run_out(*oom);
      } else {
        note_caught(*oom);
      }
    } else {
      take_peaks(allocator_->usage());
      allocator_->free(op.block, op.time_ns);
    }
    return true;
  }

  std::optional<ReplayOom> alloc(const Op& op) {
    segments_.set_event(op.event);
    const Request request{op.size_bytes, op.block, op.stream, op.pool, op.time_ns};
    if (allocator_->malloc(request) != 0) return std::nullopt;
    return ReplayOom{.event = op.event,
                     .time_ns = op.time_ns,
                     .requested_bytes = op.size_bytes,
                     .reserved_bytes = allocator_->usage().reserved_bytes,
                     .allocated_bytes = allocator_->usage().allocated_bytes,
                     .largest_free_bytes = allocator_->largest_free_bytes(request)};
  }
  bool run_out(const ReplayOom& oom) {
    result_.completed = false;
    if (!result_.oom) result_.oom = oom;
    return false;
  }

  void take_peaks(const Usage& usage) {
    peak_.requested_bytes = std::max(peak_.requested_bytes, usage.requested_bytes);
    peak_.allocated_bytes = std::max(peak_.allocated_bytes, usage.allocated_bytes);
    peak_.active_bytes = std::max(peak_.active_bytes, usage.active_bytes);
    peak_.reserved_bytes = std::max(peak_.reserved_bytes, usage.reserved_bytes);
  }

  void finish() {
    const Counters& counters = allocator_->counters();
    result_.peak_requested_bytes = peak_.requested_bytes;
    result_.peak_allocated_bytes = peak_.allocated_bytes;
    result_.peak_active_bytes = peak_.active_bytes;
    result_.peak_reserved_bytes = std::max(peak_.reserved_bytes, counters.peak_reserved_bytes);
    if (result_.peak_reserved_bytes > 0) {
      result_.utilization = static_cast<double>(result_.peak_requested_bytes) /
                            static_cast<double>(result_.peak_reserved_bytes);
    }
    result_.device_allocs = counters.device_allocs;
    result_.device_frees = counters.device_frees;
    result_.retries = counters.retries;
    result_.stream_waits = counters.stream_waits;
    result_.driver_time_ns = gpu_.stats().time_ns();
    for (size_t i = 0; i < gpu::kCallCount; ++i) {
      const auto call = static_cast<gpu::Call>(i);
      const gpu::CallStats::One& one = gpu_.stats()[call];
      if (one.count == 0) continue;
      result_.driver_calls.push_back({std::string(gpu::to_string(call)), one.count, one.time_ns});
    }
    result_.made_calls = segments_.log().size();
    result_.matched_calls = segments_.matched_calls();
    result_.may_depend_on_addresses = may_depend_on_addresses();
    result_.layouts_completed = result_.completed ? 1 : 0;
  }

  // Without a limit nothing has to fit; ranges mapped in reserved address space are the allocator's
  // to place. If nothing was released, a recording's addresses are as likely as any, unless it has
  // none, or those of a dry run.
  bool may_depend_on_addresses() {
    const bool takes_segments = gpu_.stats()[gpu::Call::kAllocSegment].count > 0;
    const bool follows_recording =
        knows_addresses(program_) && result_.matched_calls == segments_.log().size();
    const bool is_placed = knows_addresses(program_) && result_.device_frees == 0;
    return result_.capacity_bytes && takes_segments && !follows_recording && !is_placed;
  }

  const Program& program_;
  gpu::SimGpu gpu_;
  SegmentSource segments_;
  std::unique_ptr<Allocator> allocator_;
  uint64_t max_driver_calls_;
  size_t caught_until_;  // ops: the recorded program continued without what is refused before
  CurveTaker curve_;
  size_t next_choice_ = 0;
  std::vector<std::optional<uint64_t>> got_;  // by number of a choice: the bytes that it got last
  Usage peak_;
  ReplayResult result_;
};

}  // namespace

ReplayResult run(const Program& program, const Peer& peer, const AllocatorSpec& spec,
                 const ReplayOptions& options, std::vector<DriverCall>* log) {
  Run one(program, options, peer, spec);
  ReplayResult result = one.go();
  if (log != nullptr) *log = one.log();
  return result;
}

}  // namespace vram::replay
