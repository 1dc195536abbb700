// Lists: a snapshot's lists while they are filled, each in a slot, and what they become: frames
// become a stack, records a range, scalars a few values that are kept. One thread; no allocation
// for each item beyond the arrays' growth.
#pragma once

#include "base/pod_vector.hpp"
#include "trace/import/pickle/sink.hpp"
#include "trace/import/torch/collected.hpp"
#include "trace/import/torch/names.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace vram::trace::torch {

class Lists {
 public:
  // Both must outlive this.
  Lists(Collected& all, Stacks& stacks) : all_(all), stacks_(stacks) {}

  // See the functions of pickle::Sink for lists and tuples.
  void begin(unsigned slot);
  void append(unsigned slot, std::span<const pickle::Value> items);
  void truncated(unsigned slot) { lists_[slot].truncated = true; }
  [[nodiscard]] pickle::Value end(unsigned slot) { return finish(lists_[slot]); }
  [[nodiscard]] pickle::Value tuple(std::span<const pickle::Value> items);

 private:
  struct List {
    Tag content = kEmpty;  // of its items
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t left_out = 0;
    bool truncated = false;
    uint32_t entry_list = Traces::kNoEntries;  // reserved when the first entry comes
    PodVector<FrameId> frames;
    std::vector<pickle::Value> scalars;
    std::vector<uint32_t> lists;
  };
  void append_one(List& list, const pickle::Value& item);
  void append_to_range(List& list, const pickle::Value& item, const char* what);
  size_t append_frames(List& list, std::span<const pickle::Value> items);
  void append_frame(List& list, FrameId frame);
  void append_annotation(List& list, const pickle::Value& item);
  pickle::Value finish(List& list);
  pickle::Value finish_scalars(List& list);
  static bool accepts(List& list, Tag content);
  uint32_t entry_list_of(List& list);

  Collected& all_;
  Stacks& stacks_;
  std::array<List, pickle::kMaxOpen + 1> lists_;  // the last one: a tuple at work
};

}  // namespace vram::trace::torch
