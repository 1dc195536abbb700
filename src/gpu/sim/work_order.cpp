#include "gpu/sim/work_order.hpp"

#include "base/result.hpp"

#include <algorithm>

namespace vram::gpu {

bool WorkOrder::covers(const Clock& later, const Clock& earlier) {
  return std::ranges::equal(earlier, later, std::ranges::less_equal());
}

void WorkOrder::join(Clock& clock, const Clock& other) {
  for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

// A slot is taken again when the host knows all of its work done, so that what was counted in it is
// ordered before all that comes.
bool WorkOrder::is_spare(uint32_t slot) const {
  const Stream& stream = streams_[slot];
  return !stream.is_used || (stream.has_ended && host_[slot] >= stream.last_number);
}

uint32_t WorkOrder::spare_streams() const {
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < kMaxStreams; ++slot) count += is_spare(slot) ? 1 : 0;
  return count;
}

uint32_t WorkOrder::slot_of(StreamHandle handle) {
  uint32_t unused = kMaxStreams;
  for (uint32_t slot = 0; slot < kMaxStreams; ++slot) {
    const Stream& stream = streams_[slot];
    if (stream.is_used && !stream.has_ended && stream.handle == handle) return slot;
    if (is_spare(slot) && unused == kMaxStreams) unused = slot;
  }
  VRAM_CHECK(unused < kMaxStreams);
  const uint64_t number = streams_[unused].last_number;
  Stream fresh;
  fresh.is_used = true;
  fresh.handle = handle;
  fresh.clock = host_;
  fresh.last_number = fresh.done = number;
  streams_[unused] = std::move(fresh);
  return unused;
}

const WorkOrder::Work& WorkOrder::enqueue(StreamHandle handle, std::vector<Access> accesses,
                                          Flag waits_for, Flag sets) {
  const uint32_t slot = slot_of(handle);
  Stream& stream = streams_[slot];
  join(stream.clock, host_);
  stream.clock[slot] = ++stream.last_number;
  return stream.queue.emplace_back(Work{.stream = handle,
                                        .slot = slot,
                                        .number = stream.last_number,
                                        .clock = stream.clock,
                                        .accesses = std::move(accesses),
                                        .waits_for = waits_for,
                                        .sets = sets});
}

void WorkOrder::end(StreamHandle stream) {
  streams_[slot_of(stream)].has_ended = true;
  if (!has_ended(stream)) ended_.push_back(stream);
}

bool WorkOrder::has_ended(StreamHandle stream) const {
  return std::ranges::find(ended_, stream) != ended_.end();
}

void WorkOrder::begin_capture(StreamHandle handle) {
  Stream& stream = streams_[slot_of(handle)];
  stream.last_uncaptured = stream.last_number;
}

void WorkOrder::end_capture(StreamHandle stream) {
  streams_[slot_of(stream)].last_uncaptured = kNoCapture;
}

bool WorkOrder::is_captured(StreamHandle handle) const {
  return std::ranges::any_of(streams_, [handle](const Stream& stream) {
    return stream.is_used && !stream.has_ended && stream.handle == handle &&
           stream.last_uncaptured != kNoCapture;
  });
}

bool WorkOrder::is_any_captured() const {
  return std::ranges::any_of(
      streams_, [](const Stream& stream) { return stream.last_uncaptured != kNoCapture; });
}

void WorkOrder::record(StreamHandle stream, EventHandle event) {
  events_[event] = streams_[slot_of(stream)].clock;
}

void WorkOrder::wait(StreamHandle stream, EventHandle event) {
  const uint32_t slot = slot_of(stream);
  join(streams_[slot].clock, events_.at(event));
}

bool WorkOrder::query(EventHandle event) {
  const auto found = events_.find(event);
  if (found == events_.end() || !has_happened(found->second)) return false;
  join(host_, found->second);
  return true;
}

bool WorkOrder::has_happened(const Clock& clock) const {
  for (uint32_t slot = 0; slot < kMaxStreams; ++slot) {
    if (streams_[slot].done < clock[slot]) return false;
  }
  return true;
}

bool WorkOrder::can_run(const Work& work) const {
  if (work.number > streams_[work.slot].last_uncaptured) return false;
  if (work.waits_for != 0 && std::ranges::find(set_flags_, work.waits_for) == set_flags_.end()) {
    return false;
  }
  Clock before = work.clock;
  --before[work.slot];
  return has_happened(before);
}

void WorkOrder::run_next(uint32_t slot) {
  Stream& stream = streams_[slot];
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (run_) run_(work);
  stream.done = work.number;
  if (work.sets != 0) set_flags_.push_back(work.sets);
  if (work.waits_for != 0) std::erase(set_flags_, work.waits_for);
}

bool WorkOrder::step(uint64_t choice) {
  for (uint32_t i = 0; i < kMaxStreams; ++i) {
    const auto slot = static_cast<uint32_t>((choice + i) % kMaxStreams);
    const Stream& stream = streams_[slot];
    if (stream.queue.empty() || !can_run(stream.queue.front())) continue;
    run_next(slot);
    return true;
  }
  return false;
}

bool WorkOrder::finish() {
  while (step(0)) {
  }
  bool is_all = true;
  for (Stream& stream : streams_) {
    const auto dropped = std::erase_if(stream.queue, [&stream](const Work& work) {
      return work.number <= stream.last_uncaptured;
    });
    is_all = is_all && dropped == 0;
    stream.done = std::min(stream.last_number, stream.last_uncaptured);
  }
  return is_all;
}

void WorkOrder::observe_all() {
  for (uint32_t slot = 0; slot < kMaxStreams; ++slot) host_[slot] = streams_[slot].done;
}

}  // namespace vram::gpu
