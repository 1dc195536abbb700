// The memo: values stored by earlier opcodes, by number. 8 bytes for a slot, and less for whole
// pages of consecutive records, such as those of a recording's events: such a page is returned to
// the system and stored as a run. Use it from one thread.
#pragma once

#include "base/pod_vector.hpp"
#include "trace/import/pickle/value.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::trace::pickle {

class Memo {
 public:
  [[nodiscard]] uint64_t size() const { return slots_.size(); }
  // How many slots were ever stored: the number MEMOIZE uses next.
  [[nodiscard]] uint64_t used() const { return used_; }
  [[nodiscard]] uint64_t memory_bytes() const { return (size() - in_runs_) * sizeof(Value); }

  [[nodiscard]] std::span<const Value> slots() const { return slots_.span(); }
  // Unset also for most values in runs: then call find(). index < size()
  [[nodiscard]] const Value& operator[](uint64_t index) const { return slots_[index]; }
  // Unset if nothing was stored.
  [[nodiscard]] Value find(uint64_t index) const;

  void store(uint64_t index, const Value& value);
  // MEMOIZE: the common case of storing at the end.
  void append(const Value& value) {
    slots_.push_back(value);
    ++used_;
  }
  // Compacts what was stored since the last call, except the newest slots. Call it periodically.
  void compact();

 private:
  struct Run {
    uint64_t first = 0;  // index
    uint64_t count = 0;
    uint64_t stride = 1;  // sequences in turn: 1 or 2
    Value starts[2];      // of each
    [[nodiscard]] Value at(uint64_t offset) const;
  };
  [[nodiscard]] const Run* run_of(uint64_t index) const;
  [[nodiscard]] bool counts_up(uint64_t first, uint64_t stride) const;
  void make_run(uint64_t first, uint64_t stride);

  PodVector<Value> slots_;
  uint64_t used_ = 0;
  std::vector<Run> runs_;  // ascending
  uint64_t looked_at_ = 0;
  uint64_t in_runs_ = 0;
};

}  // namespace vram::trace::pickle
