// WasteIndex: what the patterns of waste (patterns.hpp) share about one device: the blocks at the
// requested peak, the optimizer's steps, what stacks show, and replays with changes. Parts are
// computed when first used. Views its sources; use an object from one thread at a time.
#pragma once

#include "explain/moment/state.hpp"
#include "explain/names/names.hpp"
#include "explain/report.hpp"
#include "explain/site/site.hpp"
#include "explain/steps/evidence.hpp"
#include "explain/waste/peak_replay.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vram::explain {

// What the frames of a stack show for certain.
struct StackFacts {
  bool is_known = false;
  bool in_module = false;      // called through torch.nn.Module
  bool in_backward = false;    // by autograd, or recomputed for it
  bool in_optimizer = false;   // in torch.optim
  bool empties_cache = false;  // torch.cuda.empty_cache
  bool upcasts = false;        // a copy in a larger type that autocast made for its operation
  bool data_parallel = false;  // torch.nn.DataParallel
  bool gathers = false;        // ... collecting its outputs on one GPU
  uint64_t module_path = 0;    // of the frames from the allocation up to the model's call
};

class WasteIndex {
 public:
  WasteIndex(const Sources& sources, const DeviceReport& report);

  [[nodiscard]] const Sources& sources() const { return sources_; }
  [[nodiscard]] const DeviceReport& report() const { return report_; }
  [[nodiscard]] const History& history() const { return sources_.history; }
  [[nodiscard]] const Lifetime& block(uint32_t id) const { return sources_.history.lifetimes[id]; }
  [[nodiscard]] std::span<const trace::Event> events() const { return events_; }
  [[nodiscard]] int64_t peak_event() const { return report_.peak.requested.event; }
  [[nodiscard]] uint64_t peak_bytes() const {
    return report_.peak.requested.totals.requested_bytes;
  }

  // Active at the requested peak, in order of allocation; without those of private pools.
  [[nodiscard]] const std::vector<uint32_t>& at_peak();
  [[nodiscard]] const PeakReplay& replay();

  // Steps of optimizers, in order, not overlapping: from annotations and from scopes.
  [[nodiscard]] const std::vector<EventRange>& optimizer_steps();
  // The last one that ended at this event or before it; nullptr: none.
  [[nodiscard]] const EventRange* step_ended_by(int64_t event);
  // Calls of Optimizer.zero_grad, from annotations.
  [[nodiscard]] const std::vector<EventRange>& zero_grads();
  // Events of a step, median; 0 without steps.
  [[nodiscard]] uint64_t step_events() const { return step_events_; }

  [[nodiscard]] const StackFacts& facts(trace::StackId stack);
  // Of the scope of an event.
  [[nodiscard]] StepPart part_of(trace::ContextId context);
  // Allocated in the forward pass of a module, by its stack or by its scope.
  [[nodiscard]] bool is_of_forward(const Lifetime& lifetime);
  // Allocated by autograd: its threads have no Python stack.
  [[nodiscard]] bool is_of_backward(trace::StackId stack, trace::ContextId context);
  // Of a CUDA graph or a MemPool, or perhaps: graphs use their memory whenever they run, which no
  // event shows.
  [[nodiscard]] bool is_private(const Lifetime& lifetime) const;

  // Places: blocks of the same stack and scope. 0: the recording shows neither.
  [[nodiscard]] uint32_t place(const Lifetime& lifetime) const;
  [[nodiscard]] uint32_t place_count() const;
  // Of the user's frame of a stack, else of the scope: "train.py:42 loss_fn". "" without either.
  [[nodiscard]] std::string line_of(trace::StackId stack);
  [[nodiscard]] std::string line(const Lifetime& lifetime);
  // Of the call that released it, if that was recorded.
  [[nodiscard]] std::string line_of_release(const Lifetime& lifetime);

  // Are there more allocations than this in the events [first, end)?
  [[nodiscard]] bool has_more_allocations(uint64_t limit, int64_t first, int64_t end) const;
  // Sets of blocks at the peak that are released later with no allocation between two of them; each
  // in order of allocation.
  [[nodiscard]] const std::vector<std::vector<uint32_t>>& released_together();

 private:
  void find_optimizer_steps();
  [[nodiscard]] std::vector<EventRange> scoped_optimizer_steps();
  [[nodiscard]] StackFacts examine(trace::StackId stack) const;

  const Sources& sources_;
  const DeviceReport& report_;
  std::span<const trace::Event> events_;
  UserFrames user_frames_;
  uint64_t step_events_ = 0;
  std::optional<std::vector<uint32_t>> at_peak_;
  std::optional<PeakReplay> replay_;
  bool has_marks_ = false;
  std::vector<EventRange> optimizer_steps_;
  std::vector<EventRange> zero_grads_;
  std::vector<StackFacts> facts_;               // by StackId
  std::vector<std::optional<StepPart>> parts_;  // by ContextId
  std::optional<std::vector<std::vector<uint32_t>>> released_together_;
};

}  // namespace vram::explain
