// Training: a synthetic recording for benchmarks: training steps on a simulated caching allocator,
// with step annotations, a side stream and a slow leak, with stacks or without. The same one each
// time.
#pragma once

#include "base/bytes.hpp"
#include "explain/testing/caching_allocator.hpp"
#include "trace/trace.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vram {

class Training {
 public:
  explicit Training(bool has_stacks) { trace_.has_stacks = has_stacks; }

  // At least so many events; the last step is complete.
  trace::Trace record(uint64_t events) {
    trace_.has_time = true;
    allocator_.record_into(&trace_);
    if (trace_.has_stacks) intern_stacks();
    for (int i = 0; i < 2000; ++i) allocate(1 + random_() % (8 * kMiB), 0);  // weights
    const auto step = trace_.tables.strings.intern("ProfilerStep");
    while (trace_.events.size() < events) {
      annotate(step, true);
      run_step();
      annotate(step, false);
    }
    trace::DeviceTrace& device = trace_.devices.emplace_back();
    device.event_count = trace_.events.size();
    allocator_.write_end_state(device);
    return std::move(trace_);
  }

 private:
  void intern_stacks() {
    const auto file = trace_.tables.strings.intern("/home/me/train.py");
    std::vector<trace::FrameId> frames(20);
    for (uint32_t s = 0; s < kStacks; ++s) {
      for (uint32_t depth = 0; depth < frames.size(); ++depth) {
        const auto name = trace_.tables.strings.intern("f" + std::to_string(s * 7 % 101 + depth));
        frames[depth] = trace_.tables.frames.intern({name, file, s + depth, 0, 0});
      }
      trace_.tables.stacks.intern(frames);
    }
  }
  uint64_t allocate(uint64_t bytes, uint32_t site) {
    const uint64_t block = allocator_.allocate(bytes);
    if (trace_.has_stacks) trace_.events.back().stack = 1 + site % kStacks;
    return block;
  }
  void annotate(trace::StringId name, bool is_begin) {
    const int64_t time_ns = trace_.events.back().time_ns + 1;
    trace_.annotations.push_back({time_ns, name, 0, is_begin, {}});
  }
  // Activations pile up in the forward pass; each layer of the backward pass has temporaries and
  // frees its own.
  void run_step() {
    std::vector<uint64_t> activations;
    const uint64_t batch = 1 + random_() % 4;
    for (uint32_t layer = 0; layer < 600; ++layer) {
      activations.push_back(allocate(batch * (kSizes[layer % kSizes.size()] + layer % 7), layer));
      allocator_.free(allocate(batch * 70'000, layer + 1));
    }
    for (uint32_t layer = 600; layer-- > 0;) {
      const uint64_t gradient = allocate(batch * kSizes[layer % kSizes.size()], layer + 2);
      allocator_.free(allocate(4096, layer + 3));
      allocator_.free(activations[layer], layer % 50 == 0);
      if (layer % 50 == 0) allocator_.complete(activations[layer]);
      allocator_.free(gradient);
    }
    allocate(100, 499);  // the leak
  }

  static constexpr uint32_t kStacks = 500;
  static constexpr std::array<uint64_t, 5> kSizes = {900, 200'000, 1'500'000, 6'000'000,
                                                     12'000'000};
  explain::testing::CachingAllocator allocator_{explain::AllocatorRules{}};
  std::mt19937_64 random_{1};
  trace::Trace trace_;
};

}  // namespace vram
