// The zoo: recordings of imaginary training jobs with known steps, leaks and none. Each job is a
// plain loop of forward, backward and optimizer over a few layers, with one or more of the habits
// that fool leak and step finders.
#pragma once

#include "explain/testing/trace_builder.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace vram::explain::testing {

struct Job {
  uint32_t seed = 1;
  uint32_t steps = 10;
  uint32_t layers = 8;
  bool annotated = false;         // Optimizer.step marks
  bool variable_length = false;   // every batch has its own shape
  uint32_t accumulation = 1;      // passes per optimizer step
  uint32_t evaluate_every = 0;    // steps; then a few forward passes
  uint32_t cached_shapes = 0;     // a cache that gets an entry for each new one of so many shapes
  uint32_t collect_every = 0;     // garbage of each step is freed every so many steps
  uint32_t last_losses = 0;       // a window of so many kept outputs
  uint32_t generated_tokens = 0;  // a generation loop before each step
  uint64_t leak_bytes = 0;        // kept for ever ...
  uint32_t leak_every = 1;        // ... every so many steps
  uint32_t leak_from = 0;         // ... from this step on
  bool long_lived = false;        // another block of that size lives nearly as long as the job
  uint32_t noise = 0;             // blocks a step that live for up to two steps, of any size
  uint32_t common = 0;            // blocks of `common_bytes` a step that live for one to four steps
  uint64_t common_bytes = 0;
  uint32_t prefetched = 0;  // batches that are made so many steps before they are used
  bool has_stacks = false;
  bool begins_mid_step = false;  // the ring lost the set-up and half a step
};

class TrainingRun {
 public:
  explicit TrainingRun(const Job& job) : job_(job), random_(job.seed) {
    for (uint32_t i = 0; i < job.layers; ++i)
      weights_.push_back((uint64_t{64} + 8 * ((i * 7 + 3) % 11)) << 10);
    if (job.has_stacks) {
      leak_line_ = b_.stack({{"/w/site-packages/torch/nn/functional.py", 9, "mean"},
                             {"/home/me/train.py", 42, "hook"},
                             {"/home/me/train.py", 7, "main"}});
      model_line_ = b_.stack({{"/w/site-packages/torch/nn/functional.py", 5, "linear"},
                              {"/home/me/model.py", 12, "forward"},
                              {"/home/me/train.py", 7, "main"}});
    }
  }

  Made record() {
    set_up();
    for (uint32_t step = 0; step < job_.steps; ++step) one_step(step);
    b_.free_all(&kept_);  // the program ends
    b_.free_all(&cache_);
    b_.free_all(&batches_);
    for (auto& blocks : dying_) b_.free_all(&blocks.second);
    return b_.build();
  }

 private:
  void set_up() {
    for (const uint64_t w : weights_) {
      if (job_.begins_mid_step) {
        b_.before_recording(w);
      } else {
        b_.alloc(w);
      }
    }
    if (!job_.begins_mid_step) return;
    for (const uint64_t w : weights_) b_.before_recording(2 * w);  // optimizer state
    backward(forward(batch_length()), true);
    optimize();
  }

  uint32_t within(uint32_t count) { return static_cast<uint32_t>(random_() % count); }

  uint32_t batch_length() {
    if (!job_.variable_length) return 48;
    return std::uniform_int_distribution<uint32_t>(16, 80)(random_);
  }

  void one_step(uint32_t step) {
    b_.free_all(&dying_[step]);
    for (uint32_t i = 0; i < job_.noise; ++i)
      dying_[step + 1 + within(2)].push_back(b_.alloc(256 + random_() % (64 << 10)));
    for (uint32_t i = 0; i < job_.common; ++i)
      dying_[step + 1 + (job_.seed + i) % 4].push_back(b_.alloc(job_.common_bytes));
    if (job_.prefetched > 0) prefetch();
    if (job_.generated_tokens > 0) generate();
    for (uint32_t pass = 0; pass < job_.accumulation; ++pass)
      backward(forward(batch_length()), pass == 0);
    if (step == 0 && !job_.begins_mid_step) {
      for (const uint64_t w : weights_) b_.alloc(2 * w);  // optimizer state, once
    }
    optimize();
    habits(step);
  }

  std::vector<TraceBuilder::Block> forward(uint32_t length) {
    std::vector<TraceBuilder::Block> activations;
    activations.push_back(b_.alloc(uint64_t{length} * 512 * 4));
    for (uint32_t i = 0; i < job_.layers; ++i) {
      b_.temporary(uint64_t{length} * 300 + i * 64, model_line_);
      activations.push_back(b_.alloc(uint64_t{length} * (4096 + 1024 * (i % 3)), model_line_));
      activations.push_back(b_.alloc(uint64_t{length} * 2048, model_line_));
    }
    return activations;
  }

  void backward(std::vector<TraceBuilder::Block> activations, bool first_pass) {
    for (uint32_t i = job_.layers; i-- > 0;) {
      const auto flowing = b_.alloc(uint64_t{3} * 4096);
      const auto gradient = b_.alloc(weights_[i]);
      if (first_pass) {
        gradients_.push_back(gradient);
      } else {
        b_.free(gradient);  // added to the one that is there
      }
      b_.temporary(256 + 16 * i);
      b_.free(flowing);
      b_.free(activations.back());
      activations.pop_back();
    }
    b_.free_all(&activations);
  }

  void optimize() {
    if (job_.annotated) b_.begin("Optimizer.step#AdamW.step");
    std::vector<TraceBuilder::Block> scratch;
    for (const uint64_t w : weights_) scratch.push_back(b_.alloc(w));
    b_.free_all(&scratch);
    if (job_.annotated) b_.end("Optimizer.step#AdamW.step");
    b_.free_all(&gradients_);
  }

  // A token of each of so many: small tensors in a loop, many times a step.
  void generate() {
    std::vector<TraceBuilder::Block> keys;
    const uint32_t tokens =
        job_.generated_tokens / 2 + static_cast<uint32_t>(random_() % job_.generated_tokens);
    for (uint32_t token = 0; token < tokens; ++token) {
      for (uint32_t i = 0; i < job_.layers; ++i) {
        b_.temporary(1024 + 512 * (i % 4));
        b_.temporary(4096);
      }
      keys.push_back(b_.alloc(2048));
    }
    b_.free_all(&keys);
  }

  void habits(uint32_t step) {
    if (job_.long_lived && step == 2) long_lived_.push_back(b_.alloc(job_.leak_bytes));
    if (job_.long_lived && step + 2 == job_.steps) b_.free_all(&long_lived_);
    if (job_.evaluate_every > 0 && step % job_.evaluate_every == job_.evaluate_every - 1) {
      for (int batch = 0; batch < 3; ++batch) {
        auto outputs = forward(96);
        b_.free_all(&outputs);
      }
    }
    if (job_.cached_shapes > 0) {
      const uint64_t shape = random_() % job_.cached_shapes;
      if (std::find(shapes_.begin(), shapes_.end(), shape) == shapes_.end()) {
        shapes_.push_back(shape);
        cache_.push_back(b_.alloc((shape + 1) * 2000));
      }
    }
    if (job_.collect_every > 0) {
      if (step % job_.collect_every == job_.collect_every - 1) b_.free_all(&garbage_);
      garbage_.push_back(b_.alloc(50'000));
    }
    if (job_.last_losses > 0) {
      window_.push_back(b_.alloc(40'000));
      if (window_.size() > job_.last_losses) {
        b_.free(window_.front());
        window_.erase(window_.begin());
      }
    }
    if (job_.leak_bytes > 0 && step >= job_.leak_from && step % job_.leak_every == 0)
      kept_.push_back(b_.alloc(job_.leak_bytes, leak_line_));
  }

  void prefetch() {
    batches_.push_back(b_.alloc(uint64_t{batch_length()} * 700));
    if (batches_.size() <= job_.prefetched) return;
    b_.free(batches_.front());
    batches_.erase(batches_.begin());
  }

  Job job_;
  std::mt19937 random_;
  TraceBuilder b_;
  std::vector<uint64_t> weights_;
  std::vector<TraceBuilder::Block> gradients_, garbage_, window_, cache_, kept_, long_lived_;
  std::vector<TraceBuilder::Block> batches_;
  std::map<uint32_t, std::vector<TraceBuilder::Block>> dying_;  // by the step that frees them
  std::vector<uint64_t> shapes_;
  trace::StackId leak_line_ = 0;
  trace::StackId model_line_ = 0;
};

inline Made record(const Job& job) { return TrainingRun(job).record(); }

}  // namespace vram::explain::testing
