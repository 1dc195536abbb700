// Which calls fail on purpose, and how often each was made. Guarded by the machine's mutex.
#pragma once

#include "gpu/cuda/driver_types.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace vram::gpu::cuda::fake {

class Failures {
 public:
  // Counts the call; what it is to fail with, kSuccess to go on.
  [[nodiscard]] CUresult next(const std::string& function);
  // function empty: any.
  void fail_nth(std::string function, uint64_t nth, CUresult result);
  void fail_at_random(std::string function, double rate, uint64_t seed, CUresult result);
  void break_device(CUresult result) { broken_ = result; }
  void heal();
  [[nodiscard]] uint64_t calls(const std::string& function) const;

 private:
  struct Planned {
    std::string function;
    uint64_t calls_left = 0;
    CUresult result = kSuccess;
  };
  struct AtRandom {
    std::string function;
    double rate = 0;
    CUresult result = kSuccess;
    std::mt19937_64 random;
  };
  [[nodiscard]] CUresult next_planned(const std::string& function);

  std::map<std::string, uint64_t> calls_;
  std::vector<Planned> planned_;
  std::optional<AtRandom> at_random_;
  CUresult broken_ = kSuccess;
};

}  // namespace vram::gpu::cuda::fake
