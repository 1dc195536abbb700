#include "replay/program.hpp"

#include "base/address_map.hpp"
#include "base/bytes.hpp"
#include "base/time.hpp"
#include "replay/initial_layout.hpp"
#include "replay/peers/torch_rules.hpp"
#include "replay/peers/vram_rules.hpp"
#include "replay/recorded_limit.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

namespace vram::replay {
namespace {

using trace::Event;
using trace::EventKind;

// Turns events into ops. A free that completes inside a call that gave segments back belongs behind
// that call: the allocator searched before it waited for the device, and waits by itself when
// replayed.
class Writer {
 public:
  Writer(const trace::Tables& tables, std::span<const Event> events, Program& program,
         bool completes_on_request)
      : tables_(tables),
        events_(events),
        program_(program),
        completes_on_request_(completes_on_request) {
    program_.ops.reserve(events.size() / 3 * 2 + 16);
  }

  void begin_with(const std::vector<InitialBlock>& blocks) {
    for (const InitialBlock& block : blocks) {
      live_.set(block.address, program_.block_count);
      const Op op{.size_bytes = block.requested_bytes,
                  .block = program_.block_count++,
                  .stream = block.stream,
                  .pool = block.pool};
      program_.ops.push_back(op);
      if (!block.is_pending) continue;
      program_.ops.push_back(of(op, OpKind::kFreeLater));
      pending_.set(block.address, 1);
    }
    program_.initial_ops = static_cast<uint32_t>(program_.ops.size());
  }

  void write() {
    for (uint32_t i = 0; i < events_.size(); ++i) see(i);
    flush();
  }

 private:
  void see(uint32_t i) {
    const Event& event = events_[i];
    if (is_plausible(event.address, event.size_bytes)) {
      if (event.kind == EventKind::kAlloc) return see_alloc(i);
      if (event.kind == EventKind::kFreeRequested) return see_request(i);
      if (event.kind == EventKind::kFreeCompleted) return see_completion(i);
    }
    if (event.kind == EventKind::kOom) return see_refused(i);
    // The pool's pages move between blocks, which gives nothing back.
    if (gives_back(event.kind) && !is_of_vram(tables_, event.context)) {
      see_given_back(i);
    }
  }

  void see_alloc(uint32_t i) {
    uint32_t& here = live_.at(events_[i].address);
    if (here != AddressMap::kNone) end_lost_block(i, here);
    here = program_.block_count++;
    put(i, OpKind::kAlloc, here, events_[i].size_bytes);
    if (i > 0 && events_[i - 1].kind == EventKind::kOom && is_choice(i)) end_choice(i);
  }
  bool is_choice(uint32_t i) const {
    return tables_.strings[tables_.contexts[events_[i].context].category] == trace::kChoice;
  }
  // The requests of a choice are events in a row.
  void end_choice(uint32_t i) {
    size_t op = program_.ops.size() - 1;
    while (program_.ops[op].event != i || program_.ops[op].kind != OpKind::kAlloc) --op;
    const auto is_of_it = [&](uint32_t back) {
      return back <= op && program_.ops[op - back].event == i - back &&
             program_.ops[op - back].kind == OpKind::kRefused &&
             events_[i - back].context == events_[i].context;
    };
    uint32_t refused = 0;
    while (is_of_it(refused + 1)) ++refused;
    if (refused == 0) return;
    const auto number = static_cast<uint32_t>(choices_.size());
    program_.choices.push_back(
        {.first_op = static_cast<uint32_t>(op) - refused,
         .refused_ops = refused,
         .number = choices_.try_emplace(events_[i].context, number).first->second});
  }
  // The recording lacks the free of a block that was where this allocation is.
  void end_lost_block(uint32_t i, uint32_t block) {
    const bool was_pending = pending_.take(events_[i].address) != AddressMap::kNone;
    program_.ops.push_back(at(i, was_pending ? OpKind::kComplete : OpKind::kFree, block));
  }
  void see_refused(uint32_t i) {
    put(i, OpKind::kRefused, program_.block_count++, events_[i].size_bytes);
  }
  void see_request(uint32_t i) {
    const uint64_t address = events_[i].address;
    const uint32_t block = live_.find(address);
    if (block == AddressMap::kNone || pending_.find(address) != AddressMap::kNone) return;
    const bool at_once =
        completes_on_request_ || (i + 1 < events_.size() && events_[i + 1].address == address &&
                                  events_[i + 1].kind == EventKind::kFreeCompleted);
    put(i, at_once ? OpKind::kFree : OpKind::kFreeLater, block);
    if (at_once) {
      live_.erase(address);
    } else {
      pending_.set(address, 1);
    }
  }
  // Of a free done at once nothing is left to complete.
  void see_completion(uint32_t i) {
    const uint64_t address = events_[i].address;
    const uint32_t block = live_.find(address);
    if (block == AddressMap::kNone) return;
    const bool was_pending = pending_.find(address) != AddressMap::kNone;
    live_.erase(address);
    pending_.erase(address);
    if (!was_pending) return put(i, OpKind::kFree, block);
    held_.push_back(at(i, OpKind::kComplete, block));
  }
  // Inside a call of malloc that found no memory, or torch.cuda.empty_cache: the former ends by
  // taking memory or by an OOM.
  void see_given_back(uint32_t i) {
    if (i < inside_call_until_) return;
    uint32_t next = i;
    while (next < events_.size() && (events_[next].kind == EventKind::kSegmentFree ||
                                     events_[next].kind == EventKind::kSegmentUnmap ||
                                     events_[next].kind == EventKind::kFreeCompleted)) {
      ++next;
    }
    const EventKind end = next < events_.size() ? events_[next].kind : EventKind::kOther;
    inside_call_until_ = next;
    keep_held_ =
        end == EventKind::kSegmentAlloc || end == EventKind::kSegmentMap || end == EventKind::kOom;
    if (!keep_held_) return put(i, OpKind::kEmptyCache, 0);
    program_.given_back.push_back({.op = static_cast<uint32_t>(program_.ops.size()), .event = i});
    program_.ops.push_back(at(i, OpKind::kGivenBack, 0));
  }

  // Written where it stays: a copy of what was just written, field by field, waits for the writes.
  void put(uint32_t i, OpKind kind, uint32_t block, uint64_t size_bytes = 0) {
    if (!keep_held_) flush();
    Op& op = *program_.ops.extend(1);
    op = {};
    set(op, i, kind, block);
    op.size_bytes = size_bytes;
    keep_held_ = false;
    flush();
  }
  void flush() {
    for (const Op& op : held_) program_.ops.push_back(op);
    held_.clear();
  }
  [[nodiscard]] Op at(uint32_t i, OpKind kind, uint32_t block) const {
    Op op;
    set(op, i, kind, block);
    return op;
  }
  void set(Op& op, uint32_t i, OpKind kind, uint32_t block) const {
    const Event& event = events_[i];
    op.time_ns = std::max<int64_t>(nanoseconds_between(events_.front().time_ns, event.time_ns), 0);
    op.block = block;
    op.event = i;
    op.stream = event.stream;
    op.pool = event.pool;
    op.kind = kind;
  }
  static Op of(Op op, OpKind kind) {
    op.kind = kind;
    op.size_bytes = 0;
    return op;
  }

  const trace::Tables& tables_;
  std::span<const Event> events_;
  Program& program_;
  bool completes_on_request_;
  AddressMap live_;       // address -> block
  AddressMap pending_;    // addresses whose free was requested
  std::vector<Op> held_;  // completions, until it is known which call they belong to
  bool keep_held_ = false;
  uint32_t inside_call_until_ = 0;
  std::unordered_map<trace::ContextId, uint32_t> choices_;  // their numbers
};

}  // namespace

Program make_program(const trace::Trace& trace, const trace::DeviceTrace& device) {
  return make_program(trace, device, find_baseline(trace, device, FoundBlocks(trace.tables)));
}

Program make_program(const trace::Trace& trace, const trace::DeviceTrace& device,
                     Baseline baseline) {
  const std::span<const Event> events = trace.events_of(device);
  Program program;
  program.stream_count = static_cast<uint32_t>(trace.tables.streams.size());
  for (uint32_t s = 0; s < program.stream_count; ++s) {
    program.stream_handles.push_back(trace.tables.streams[static_cast<trace::StreamId>(s)]);
  }
  if (!events.empty()) {
    program.duration_ns =
        std::max<int64_t>(nanoseconds_between(events.front().time_ns, events.back().time_ns), 0);
  }
  Writer writer(trace.tables, events, program, baseline.completes_on_request);
  writer.begin_with(baseline.blocks);
  writer.write();
  program.recorded_calls = recorded_calls(trace.tables, events);
  program.has_assumed_addresses =
      std::ranges::any_of(trace.about, [](const auto& each) { return each.key == "vram.dry_run"; });
  read_layout(trace, device, std::move(baseline), program);
  read_limit_bounds(trace, device, program);
  return program;
}

std::vector<DriverCall> recorded_calls(const trace::Tables& tables,
                                       std::span<const trace::Event> events) {
  std::vector<DriverCall> calls;
  for (uint32_t i = 0; i < events.size(); ++i) {
    const trace::Event& event = events[i];
    if (!is_segment_event(event.kind) || is_of_vram(tables, event.context)) continue;
    const auto kind = static_cast<DriverCall::Kind>(
        static_cast<uint8_t>(event.kind) - static_cast<uint8_t>(trace::EventKind::kSegmentAlloc));
    calls.push_back({kind, event.size_bytes, event.address, i});
  }
  return calls;
}

}  // namespace vram::replay
