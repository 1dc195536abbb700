// Entries: turns the entries of device_traces into events, at the end of Trace::events, and
// annotations into Trace::annotations. One thread; no allocation for each event beyond the arrays'
// growth.
#pragma once

#include "trace/import/torch/dict.hpp"
#include "trace/import/torch/names.hpp"
#include "trace/import/torch/stacks.hpp"

#include <cstdint>

namespace vram::trace::torch {

class Entries {
 public:
  // All arguments must outlive this.
  Entries(Collected& all, Stacks& stacks, Names& names)
      : all_(all), stacks_(stacks), names_(names), tables_(all.trace.tables) {}

  // Return the record of a complete entry or annotation.
  [[nodiscard]] pickle::Value end_entry(const Dict& dict);
  [[nodiscard]] pickle::Value end_annotation(const Dict& dict);
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

}  // namespace vram::trace::torch
