// Planted: programs with a known pattern of waste, on the small caching allocator (with real
// segments, cached and split blocks), for tests of findings. The recording is explained as a user's
// would be.
#pragma once

#include "base/bytes.hpp"
#include "explain/explain.hpp"
#include "explain/testing/caching_allocator.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::explain::testing {

class Planted {
 public:
  using Block = CachingAllocator::Block;

  explicit Planted(const AllocatorRules& rules = {}) : allocator_(rules) {
    trace_.has_time = true;
    allocator_.record_into(&trace_);
  }

  struct Line {
    std::string_view function;
    std::string_view file;
    uint32_t line = 1;
  };
  // Innermost first.
  trace::StackId stack(std::initializer_list<Line> lines) {
    std::vector<trace::FrameId> ids;
    trace::Tables& tables = trace_.tables;
    for (const Line& l : lines) {
      ids.push_back(tables.frames.intern(
          {tables.strings.intern(l.function), tables.strings.intern(l.file), l.line, 0, 0}));
    }
    trace_.has_stacks = true;
    return tables.stacks.intern(ids);
  }
  // A module's line, called by the program in `caller`.
  trace::StackId in_module(uint32_t line, std::string_view caller = "/home/me/train.py") {
    return stack({{"forward", "/home/me/model.py", line},
                  {"_call_impl", "/w/site-packages/torch/nn/modules/module.py", 1790},
                  {"main", caller, 9}});
  }

  Block alloc(uint64_t bytes, trace::StackId stack = 0, uint64_t stream = 0) {
    const size_t before = trace_.events.size();
    const Block block = allocator_.allocate(bytes, trace_.tables.streams.intern(stream));
    set(before, stack);
    return block;
  }
  void free(Block block, trace::StackId stack = 0) {
    const size_t before = trace_.events.size();
    allocator_.free(block);
    set(before, stack);
  }
  void free_all(std::vector<Block>& blocks, trace::StackId stack = 0) {
    for (const Block block : blocks) free(block, stack);
    blocks.clear();
  }
  void empty_cache(trace::StackId stack = 0) {
    const size_t before = trace_.events.size();
    allocator_.empty_cache();
    set(before, stack);
  }
  void begin(std::string_view name) { annotate(name, true); }
  void end(std::string_view name) { annotate(name, false); }
  // The scope of all events from here on.
  void scope(std::string_view path) { path_ = trace_.tables.strings.intern(path); }
  // A name of the program for a block.
  void name(Block block, std::string_view name, std::string_view category) {
    trace::Tables& tables = trace_.tables;
    const trace::ContextId context =
        tables.contexts.intern({.user_metadata = tables.strings.intern(name),
                                .category = tables.strings.intern(category)});
    trace_.events.push_back({.time_ns = trace_.events.back().time_ns,
                             .address = block,
                             .size_bytes = allocator_.block_bytes(block),
                             .context = context,
                             .kind = trace::EventKind::kAnnotate});
  }

  [[nodiscard]] trace::Trace& trace() { return trace_; }

  // Ends the recording.
  const trace::Trace& finish(trace::DeviceKind kind = trace::DeviceKind::kGpu) {
    trace::DeviceTrace& device = trace_.devices.emplace_back();
    device.kind = kind;
    device.event_count = trace_.events.size();
    allocator_.write_end_state(device);
    return trace_;
  }
  // ... and explains it.
  DeviceReport report(trace::DeviceKind kind = trace::DeviceKind::kGpu) {
    Report made = explain(finish(kind)).value();
    return std::move(made.devices.front());
  }

 private:
  void set(size_t first, trace::StackId stack) {
    trace::Tables& tables = trace_.tables;
    const trace::ContextId context =
        path_ == 0 ? 0 : tables.contexts.intern({.user_metadata = path_});
    for (size_t i = first; i < trace_.events.size(); ++i) {
      trace_.events[i].stack = stack;
      trace_.events[i].context = context;
    }
  }
  void annotate(std::string_view name, bool is_begin) {
    const int64_t time_ns = trace_.events.empty() ? 0 : trace_.events.back().time_ns + 1;
    trace_.annotations.push_back({time_ns, trace_.tables.strings.intern(name), 0, is_begin, {}});
  }

  trace::Trace trace_;
  CachingAllocator allocator_;
  trace::StringId path_ = 0;
};

// A training program without waste, and what may be changed about it.
class PlantedTraining {
 public:
  using Block = Planted::Block;
  static constexpr uint32_t kLayers = 12;
  static constexpr uint64_t kWeight = 4 * kMiB;
  static constexpr uint64_t kActivation = 8 * kMiB;

  bool zeroes_late = false;  // after the forward pass
  uint32_t steps = 8;
  uint32_t layers = kLayers;
  uint64_t activation_bytes = kActivation;
  // Called at these places of each step.
  std::function<void(uint32_t step)> at_start, after_forward, at_end;
  std::function<void()> after_setup;

  Planted p;
  std::vector<Block> weights, gradients, activations;

  void run() {
    for (uint32_t i = 0; i < layers; ++i) weights.push_back(p.alloc(kWeight));
    if (after_setup) after_setup();
    for (uint32_t step = 0; step < steps; ++step) run_step(step);
  }
  DeviceReport report() {
    run();
    return p.report();
  }

  void forward(uint64_t bytes, std::vector<Block>& results,
               std::string_view caller = "/home/me/train.py") {
    for (uint32_t i = 0; i < layers; ++i) {
      p.free(p.alloc(kMiB / 2, p.in_module(1000 + i, caller)));
      results.push_back(p.alloc(bytes, p.in_module(10 + i, caller)));
    }
  }
  void zero_grad() {
    p.begin("Optimizer.zero_grad#AdamW.zero_grad");
    p.free_all(gradients, p.stack({{"main", "/home/me/train.py", 77}}));
    p.end("Optimizer.zero_grad#AdamW.zero_grad");
  }

 private:
  void run_step(uint32_t step) {
    p.begin("train_step");
    if (at_start) at_start(step);
    const Block batch = p.alloc(kMiB);
    forward(activation_bytes, activations);
    if (after_forward) after_forward(step);
    if (zeroes_late) zero_grad();
    while (!activations.empty()) {
      p.free(p.alloc(kMiB / 4));
      gradients.push_back(p.alloc(kWeight));
      p.free(activations.back());
      activations.pop_back();
    }
    p.begin("Optimizer.step#AdamW.step");
    p.free(p.alloc(kWeight));
    p.end("Optimizer.step#AdamW.step");
    if (!zeroes_late) zero_grad();
    p.free(batch);
    if (at_end) at_end(step);
    p.free(p.alloc(512));
    p.end("train_step");
  }
};

inline std::optional<Finding> find(const DeviceReport& report, FindingKind kind) {
  const auto found = std::ranges::find(report.findings, kind, &Finding::kind);
  return found == report.findings.end() ? std::nullopt : std::optional(*found);
}

// The kinds of all patterns, so that no test passes with a wrong finding next to the right one.
inline std::vector<FindingKind> patterns_in(const DeviceReport& report) {
  std::vector<FindingKind> kinds;
  for (const Finding& f : report.findings)
    if (f.kind > FindingKind::kRecording) kinds.push_back(f.kind);
  return kinds;
}

}  // namespace vram::explain::testing
