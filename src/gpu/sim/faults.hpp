// Faults: makes calls to the simulated driver fail on purpose, to test how its users handle
// failures of the real one. Queried once at the start of each call; a call that is to fail changes
// nothing.
//
// After kFault every call fails with it until clear(): a device that failed stays so. The same seed
// gives the same faults.
#pragma once

#include "gpu/memory.hpp"
#include "gpu/sim/call_stats.hpp"

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace vram::gpu {

class Faults {
 public:
  // The nth call from now on (1 is the next), of any kind or of one, fails once with status.
  void fail_nth(uint64_t nth, Status status);
  void fail_nth(Call call, uint64_t nth, Status status);
  // Each call, of any kind or of one, fails with this probability. Replaces an earlier rate.
  void fail_at_random(double rate, uint64_t seed, Status status, std::optional<Call> only = {});
  void clear();

  // What the call is to fail with, kOk to go on.
  [[nodiscard]] Status next(Call call);

 private:
  struct Planned {
    std::optional<Call> only;
    uint64_t calls_left = 0;
    Status status = Status::kOk;
  };
  [[nodiscard]] Status next_planned(Call call);
  [[nodiscard]] Status next_random(Call call);

  std::vector<Planned> planned_;
  std::mt19937_64 random_;
  double rate_ = 0;
  Status random_status_ = Status::kOk;
  std::optional<Call> random_only_;
  bool broken_ = false;
};

}  // namespace vram::gpu
