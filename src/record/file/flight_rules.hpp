// FlightRules: when a flight recorder writes a file of its own accord. Judges sums after each
// record, in constant memory, for a few ns.
//
// Growth. A step's floor is the least memory that is alive during the step: what stays from step to
// step. The floors of the last steps are compared by quarters: if each quarter lies above the one
// before, and the last above the first by `growth_bytes`, the rule fires. It compares 32 steps,
// then the floors of 32 pairs of steps, of 32 fours, and so on, so that slow growth is found, too.
//
// Fragmentation. The allocator takes memory from the device, although at least `unused_bytes` of
// what it holds, a fifth of it, and as much as it takes, are in no block.
//
// Both wait for the first kWarmUpSteps steps, if the program marks steps; growth needs steps. After
// it has fired, a rule needs twice as many bytes the next time: a program that grows without limit
// leaves a file each time that its growth has doubled.
#pragma once

#include "record/dumps.hpp"
#include "record/file/live_memory.hpp"
#include "record/record.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace vram::record {

struct FlightRulesOptions {
  static constexpr uint64_t kNever = UINT64_MAX;
  uint64_t growth_bytes = uint64_t{64} << 20;
  uint64_t unused_bytes = uint64_t{512} << 20;
};

class FlightRules {
 public:
  static constexpr size_t kFloors = 32;
  static constexpr uint64_t kWarmUpSteps = 10;

  struct Fired {
    DumpReason reason = DumpReason::kGrowth;
    std::string text;
  };

  explicit FlightRules(const FlightRulesOptions& options) : options_(options) {}

  // `before` is the memory without the record.
  void add(const Record& record, const LiveMemory& before);
  // The rule that has fired since the last call.
  [[nodiscard]] std::optional<Fired> take() { return std::exchange(fired_, std::nullopt); }

 private:
  void end_step();
  void add_floor(uint64_t bytes);
  [[nodiscard]] bool has_grown() const;
  void judge_request(uint64_t bytes, const LiveMemory& before);

  FlightRulesOptions options_;
  uint64_t steps_ = 0;
  uint64_t floor_ = UINT64_MAX;  // of the step under way
  std::array<uint64_t, kFloors> floors_{};
  size_t count_ = 0;              // of floors_
  uint64_t stride_ = 1;           // steps that each of them covers
  uint64_t merged_ = UINT64_MAX;  // of the steps of the next one
  uint64_t merged_steps_ = 0;
  std::optional<Fired> fired_;
};

}  // namespace vram::record
