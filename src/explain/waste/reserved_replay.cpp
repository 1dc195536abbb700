#include "explain/waste/reserved_replay.hpp"

#include "explain/whatif/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vram::explain {
namespace {

using replay::Op;
using replay::OpKind;

constexpr uint32_t kNoEdit = 0xffffffff;

std::optional<uint64_t> replayed_peak(const replay::Program& program,
                                      const replay::AllocatorSpec& spec) {
  replay::ReplayOptions options;
  options.curve_slices = 0;
  options.address_layouts = 1;
  const auto result = replay::replay(program, spec, options);
  if (!result || !result->completed || result->caught_ooms > 0) return std::nullopt;
  return result->peak_reserved_bytes;
}

// An op and the event before which it now stands.
struct MovedOp {
  int64_t event = 0;
  Op op;
};

}  // namespace

// What happens to a block: allocated before event alloc_at, released before event free_at.
struct ReservedReplay::Edit {
  uint32_t lifetime = 0;
  bool is_removed = false;
  std::optional<int64_t> alloc_at = {};
  std::optional<int64_t> free_at = {};
};

ReservedReplay::ReservedReplay(const Sources& sources, const DeviceReport& report,
                               const replay::Baseline& baseline)
    : history_(sources.history), spec_(replay::recorded_spec(sources.trace)) {
  if (!report.ooms.empty()) return;
  program_ = replay::make_program(sources.trace, sources.device, baseline);
  if (!program_.given_back.empty()) return;
  const std::optional<uint64_t> peak = replayed_peak(program_, spec_);
  const auto recorded = static_cast<double>(report.peak.reserved.totals.reserved_bytes);
  if (peak && std::abs(static_cast<double>(*peak) - recorded) <= kMaxReplayError * recorded)
    peak_ = peak;
}

std::optional<uint64_t> ReservedReplay::saved_by(std::span<const Change> changes) {
  std::vector<Edit> edits;
  edits.reserve(changes.size());
  for (const Change& change : changes) {
    const Lifetime& block = history_.lifetimes[change.lifetime];
    Edit edit{.lifetime = change.lifetime};
    const bool is_from_birth = change.from <= born(block);
    const bool is_to_end = change.until >= released(block);
    if (change.bytes != 0 || (!is_from_birth && !is_to_end)) return std::nullopt;
    edit.is_removed = is_from_birth && is_to_end;
    if (!is_from_birth) edit.free_at = change.from;
    if (!is_to_end) edit.alloc_at = change.until + 1;
    edits.push_back(edit);
  }
  return saved_with(edits);
}

std::optional<uint64_t> ReservedReplay::saved_by_moving_first(std::span<const uint32_t> lifetimes) {
  std::vector<Edit> edits;
  edits.reserve(lifetimes.size());
  for (const uint32_t id : lifetimes) edits.push_back({.lifetime = id, .alloc_at = 0});
  return saved_with(edits);
}

std::optional<uint64_t> ReservedReplay::saved_with(const std::vector<Edit>& edits) {
  if (!peak_) return std::nullopt;
  std::optional<PodVector<Op>> changed = changed_ops(edits);
  if (!changed) return std::nullopt;
  std::swap(program_.ops, *changed);
  const std::optional<uint64_t> peak = replayed_peak(program_, spec_);
  std::swap(program_.ops, *changed);
  if (!peak) return std::nullopt;
  return *peak_ - std::min(*peak_, *peak);
}

namespace {

// Takes ops out of their order and puts them elsewhere.
class OpMover {
 public:
  explicit OpMover(PodVector<Op>* ops) : ops_(*ops) {}

  void keep(const Op& op) {
    while (next_ < moved_.size() && moved_[next_].event <= int64_t{op.event}) put(op);
    ops_.push_back(op);
  }
  void move(const Op& op, int64_t event) { moved_.push_back({event, op}); }
  // After all were moved, before the first is kept.
  void sort() { std::ranges::stable_sort(moved_, {}, &MovedOp::event); }
  void finish() {
    while (next_ < moved_.size()) ops_.push_back(moved_[next_++].op);
  }

 private:
  void put(const Op& before) {
    Op op = moved_[next_++].op;
    op.event = before.event;
    op.time_ns = before.time_ns;
    ops_.push_back(op);
  }
  PodVector<Op>& ops_;
  std::vector<MovedOp> moved_;
  size_t next_ = 0;
};

}  // namespace

std::optional<PodVector<Op>> ReservedReplay::changed_ops(const std::vector<Edit>& edits) const {
  std::vector<uint32_t> edit_of_event(history_.lifetime_of_event.size(), kNoEdit);
  std::vector<uint32_t> edit_of_block(program_.block_count, kNoEdit);
  for (uint32_t i = 0; i < edits.size(); ++i) {
    const int64_t at = born(history_.lifetimes[edits[i].lifetime]);
    if (at >= 0) {
      edit_of_event[static_cast<size_t>(at)] = i;
    } else if (edits[i].is_removed || edits[i].alloc_at ||
               history_.before_recording_count != program_.initial_blocks.size()) {
      return std::nullopt;  // the layout before the first event stays
    } else {
      edit_of_block[edits[i].lifetime] = i;
    }
  }
  PodVector<Op> changed;
  changed.reserve(program_.ops.size());
  OpMover mover(&changed);
  const auto edit_of = [&](size_t i) -> const Edit* {
    const Op& op = program_.ops[i];
    if (op.kind == OpKind::kAlloc && i >= program_.initial_ops)
      edit_of_block[op.block] = edit_of_event[op.event];
    return edit_of_block[op.block] == kNoEdit ? nullptr : &edits[edit_of_block[op.block]];
  };
  // Where the op goes: nullopt: it stays.
  const auto target = [](const Edit& edit, OpKind kind) {
    if (kind == OpKind::kAlloc) return edit.alloc_at;
    return kind == OpKind::kComplete ? std::nullopt : edit.free_at;
  };
  for (size_t i = program_.initial_ops; i < program_.ops.size(); ++i) {
    const Edit* edit = edit_of(i);
    if (edit == nullptr || edit->is_removed) continue;
    const Op& op = program_.ops[i];
    if (const auto event = target(*edit, op.kind)) mover.move(op, *event);
  }
  mover.sort();
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const Op& op = program_.ops[i];
    if (i < program_.initial_ops) {
      changed.push_back(op);
      continue;
    }
    const Edit* edit = edit_of(i);
    const bool stays = edit == nullptr || (!edit->is_removed && !target(*edit, op.kind));
    if (stays) mover.keep(op);
  }
  mover.finish();
  return changed;
}

}  // namespace vram::explain
