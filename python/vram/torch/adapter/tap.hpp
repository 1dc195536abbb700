// Tap: what PyTorch's own allocator does, said to vram's recorder (vram/record.h) as it happens.
//
// PyTorch calls a tracker with the lock of a device's allocator held, so each device's events come
// in its order; history need not be on. A tracker can't be taken away: this one stays, and PyTorch
// goes on making entries for it, which it looks at no further while nothing is recorded.
//
//     start() ──▶ kHolding ──▶ kOn ──▶ stop() ──▶ kEnding ──▶ kOff
//
// kHolding looks at what is there, which is said first. Events that come meanwhile wait: those from
// before the device's part of the snapshot, whose end the allocator itself marks among its events,
// are in it already and are dropped, later ones follow it. kEnding looks again, so that readers can
// check the recording; a device's events end at its part of the snapshot. Any thread may call
// listen(), which init() does; start and stop must not be called at the same time.
//
// A free is two entries, FREE_REQUESTED and FREE_COMPLETED, which nearly always follow each other:
// the tap waits with the first for the next entry of the device, and reports both as one event.
#pragma once

#include "existing_memory.hpp"
#include "stack_of_request.hpp"
#include "strict.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <c10/cuda/CUDACachingAllocator.h>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>
#include <vram/record.h>

namespace vram_torch {

class Tap {
 public:
  static Tap& get() {
    static auto* const kOnly = new Tap;
    return *kOnly;
  }

  // Listens to `native`, once it has devices; throws where it can't be listened to.
  void start(CUDAAllocator& native, bool wants_stacks) {
    TORCH_CHECK(native.name() == "native", "its backend '", native.name(),
                "' does not tell what it does; only 'native' does");
    StackOfRequest::is_wanted() = wants_stacks;
    is_started_ = true;
    try {
      if (native.initialized()) listen(native);
    } catch (...) {
      stop(native);
      throw;
    }
  }
  void stop(CUDAAllocator& native) {
    is_started_ = false;
    StackOfRequest::is_wanted() = false;
    if (!take_snapshot_from(State::kOn, State::kEnding)) return;
    try {
      if (vram_is_recording() != 0) record_held(native_snapshot(native, 0).segments);
    } catch (const c10::Error&) {  // the recording is complete without it
    }
    state_ = State::kOff;
  }
  bool is_started() const { return is_started_; }

  // PyTorch has just made its devices' allocators: the first moment at which they take a tracker.
  void devices_are_made(CUDAAllocator& native) {
    if (!is_started_) return;
    try {
      listen(native);
    } catch (const c10::Error& error) {  // the program's first use of CUDA must not fail for it
      warn_not_set_up("PyTorch's own allocator is not recorded: ", error.msg());
    }
  }

 private:
  enum class State { kOff, kHolding, kOn, kEnding };

  // False: the state was another one.
  bool take_snapshot_from(State before, State state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (state_ != before) return false;
    marks_ = 0;
    looker_ = std::this_thread::get_id();
    state_ = state;
    return true;
  }

  void listen(CUDAAllocator& native) {
    if (!take_snapshot_from(State::kOff, State::kHolding)) return;
    vram_record_claim();  // or the driver's calls would be recorded, too
    try {
      if (!is_attached_.exchange(true)) native.attachAllocatorTraceTracker(&Tap::tracked);
      begin(native_snapshot(native, 0));
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      held_.clear();
      state_ = State::kOff;
      throw;
    }
  }

  void begin(const torch_cuda::SnapshotInfo& snapshot) {
    const std::lock_guard<std::mutex> lock(mutex_);
    record_settings(snapshot.config_metadata);
    for (const auto& segment : snapshot.segments) record_found(segment);
    for (const vram_event& event : std::exchange(held_, {})) vram_record_event(&event);
    state_ = State::kOn;
  }

  // For each request and each free. The program's own work evicts this code and what it uses from
  // the processor's caches each time, so both are small.
  static void tracked(const torch_cuda::TraceEntry& entry) {
    using Entry = torch_cuda::TraceEntry;
    const State state = state_;
    if (state == State::kOff) return;
    if (state != State::kOn) return tracked_rarely(entry, state);
    if (entry.action_ == Entry::ALLOC) return record(entry, VRAM_EVENT_ALLOC);
    if (entry.action_ == Entry::FREE_REQUESTED) return record(entry, VRAM_EVENT_FREE_REQUESTED);
    if (entry.action_ == Entry::FREE_COMPLETED) return record(entry, VRAM_EVENT_FREE_COMPLETED);
    tracked_rarely(entry, state);
  }
  [[gnu::cold]] static void tracked_rarely(const torch_cuda::TraceEntry& entry, State state) {
    vram_event_kind kind{};
    if (!is_known(entry, kind)) return;
    if (kind == VRAM_EVENT_OOM) StackOfRequest::note_failure();
    if (state == State::kOn || get().should_record(event_of(entry, kind))) record(entry, kind);
  }

  // With the lock of the device's allocator.
  static void record(const torch_cuda::TraceEntry& entry, vram_event_kind kind) {
    const auto device = static_cast<size_t>(entry.device_);
    vram_event event = event_of(entry, kind);
    if (device >= requested_frees_.size()) return vram_record_event(&event);
    vram_event& requested = requested_frees_[device].event;
    if (requested.address != 0) {
      if (kind == VRAM_EVENT_FREE_COMPLETED && event.address == requested.address)
        event.kind = VRAM_EVENT_FREE;
      else
        vram_record_event(&requested);
      requested.address = 0;
    }
    if (kind != VRAM_EVENT_FREE_REQUESTED) return vram_record_event(&event);
    requested = event_of(entry, kind);
  }
  static void record_requested(size_t device) {
    vram_event& requested = requested_frees_[device].event;
    if (requested.address != 0) vram_record_event(&requested);
    requested.address = 0;
  }

  // While the tap looks.
  bool should_record(const vram_event& event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (event.kind == VRAM_EVENT_SNAPSHOT && looker_ == std::this_thread::get_id()) {
      if (static_cast<size_t>(marks_) < requested_frees_.size())
        record_requested(static_cast<size_t>(marks_));
      drop_of_device(marks_++);  // the entry itself names device 0 always; devices come in order
      return false;
    }
    if (state_ == State::kHolding) held_.push_back(event);
    return state_ == State::kOn || (state_ == State::kEnding && event.device >= marks_);
  }

  void drop_of_device(int device) {
    held_.erase(std::remove_if(held_.begin(), held_.end(),
                               [&](const vram_event& event) { return event.device == device; }),
                held_.end());
  }

  // False: an action that a later PyTorch has added.
  static bool is_known(const torch_cuda::TraceEntry& entry, vram_event_kind& kind) {
    using Entry = torch_cuda::TraceEntry;
    switch (entry.action_) {
      case Entry::ALLOC:
        kind = VRAM_EVENT_ALLOC;
        return true;
      case Entry::FREE_REQUESTED:
        kind = VRAM_EVENT_FREE_REQUESTED;
        return true;
      case Entry::FREE_COMPLETED:
        kind = VRAM_EVENT_FREE_COMPLETED;
        return true;
      case Entry::SEGMENT_ALLOC:
        kind = VRAM_EVENT_SEGMENT_ALLOC;
        return true;
      case Entry::SEGMENT_FREE:
        kind = VRAM_EVENT_SEGMENT_FREE;
        return true;
      case Entry::SEGMENT_MAP:
        kind = VRAM_EVENT_SEGMENT_MAP;
        return true;
      case Entry::SEGMENT_UNMAP:
        kind = VRAM_EVENT_SEGMENT_UNMAP;
        return true;
      case Entry::SNAPSHOT:
        kind = VRAM_EVENT_SNAPSHOT;
        return true;
      case Entry::OOM:
        kind = VRAM_EVENT_OOM;
        return true;
      default:
        return false;
    }
  }
  static vram_event event_of(const torch_cuda::TraceEntry& entry, vram_event_kind kind) {
    vram_event event{};
    event.kind = kind;
    event.device = entry.device_;
    event.address = static_cast<uint64_t>(entry.addr_);
    event.size_bytes = static_cast<uint64_t>(entry.size_);
    event.stream = reinterpret_cast<vram_stream>(entry.stream_);
    event.stack = StackOfRequest::current();
    return event;
  }

  std::atomic<bool> is_started_{false};
  std::atomic<bool> is_attached_{false};
  inline static std::atomic<State> state_{State::kOff};
  // Of each device, with its allocator's lock; address 0: none. In lines of their own.
  struct alignas(64) RequestedFree {
    vram_event event;
  };
  inline static std::array<RequestedFree, 128> requested_frees_{};
  std::mutex mutex_;  // of the three below, and of leaving kHolding and kOn
  std::vector<vram_event> held_;
  int marks_ = 0;  // devices whose part of the snapshot is done
  std::thread::id looker_;
};

}  // namespace vram_torch
