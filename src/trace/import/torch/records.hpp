// Complete dictionaries of a snapshot become events and annotations (Entries), or segments and
// blocks (EndState). One thread.
#pragma once

#include "trace/import/torch/collected.hpp"
#include "trace/import/torch/names.hpp"

#include <cstdint>
#include <span>

namespace vram::trace::torch {

// Turns the entries of device_traces into events, at the end of Trace::events, and annotations into
// Trace::annotations. No allocation for each event beyond the arrays' growth.
class Entries {
 public:
  // All arguments must outlive this.
  Entries(Collected& all, Stacks& stacks, Names& names)
      : all_(all), stacks_(stacks), names_(names), tables_(all.trace.tables) {}

  // Return the record of a complete entry, annotation, figure or mark.
  [[nodiscard]] pickle::Value end_entry(const Dict& dict);
  [[nodiscard]] pickle::Value end_annotation(const Dict& dict);
  // Of vram.
  [[nodiscard]] pickle::Value end_figure(const Dict& dict);
  [[nodiscard]] pickle::Value end_mark(const Dict& dict);
  // Whether the entry at which the file ends has the keys that the entry before it had.
  [[nodiscard]] bool looks_whole(const Dict& dict) const;

 private:
  pickle::Value end_user_defined(const Dict& dict);
  pickle::Value add_annotation(const Annotation& annotation, bool was_entry);

  Collected& all_;
  Stacks& stacks_;
  Names& names_;
  Tables& tables_;
  uint64_t last_entry_keys_ = 0;
};

// The segments that the allocator had at the end, and their blocks.
class EndState {
 public:
  // All arguments must outlive this.
  EndState(Collected& all, Stacks& stacks, Names& names)
      : all_(all), stacks_(stacks), names_(names) {}

  // Return the record of a complete dictionary of each kind.
  [[nodiscard]] pickle::Value end_segment(const Dict& dict);
  [[nodiscard]] pickle::Value end_block(const Dict& dict);
  [[nodiscard]] pickle::Value end_tenant(const Dict& dict);

 private:
  std::span<Block> take_blocks(const pickle::Value& value, Segment& segment);

  Collected& all_;
  Stacks& stacks_;
  Names& names_;
};

}  // namespace vram::trace::torch
