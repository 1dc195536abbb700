// Task: what a model is used for, as far as memory depends on it. A plain value.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace vram::plan {

enum class Use : uint8_t { kTrain, kLora, kInfer };

enum class Precision : uint8_t {
  kFp32,
  kBf16,      // weights, gradients and optimizer states; fp16 has the same bytes
  kAutocast,  // fp32 weights, computation in bf16
  kMixed,     // bf16 weights and gradients; the optimizer has fp32 weights and states
};

enum class Optimizer : uint8_t { kAdamW, kAdamWFused, kAdamW8bit, kMomentum, kSgd, kAdafactor };

// Of the weights that do not change (--use lora and infer), as bitsandbytes stores them.
enum class Quantization : uint8_t { kInt8, kNf4 };

// The linear layers with an adapter of LoRA.
enum class Targets : uint8_t { kQueryValue, kAttention, kLinear };

struct Task {
  Use use = Use::kTrain;
  Precision precision = Precision::kMixed;
  Optimizer optimizer = Optimizer::kAdamW;
  std::optional<Quantization> quantization{};
  uint64_t batch = 1;
  uint64_t sequence = 1;
  bool checkpoints = false;  // each block keeps its input only, and runs again
  bool accumulates = false;  // gradients exist before the step's first backward
  uint64_t rank = 16;        // of LoRA
  Targets targets = Targets::kLinear;
  uint64_t cached_bytes = 2;  // of a number in the KV cache

  [[nodiscard]] uint64_t tokens() const { return batch * sequence; }
};

// Bytes of a number, by what it is.
struct NumberBytes {
  uint64_t weight = 4;
  uint64_t gradient = 4;
  uint64_t master = 0;    // the optimizer's own copy of the weight
  uint64_t state = 4;     // one of the optimizer's states
  uint64_t compute = 4;   // results of linear layers
  uint64_t residual = 4;  // the residual stream between blocks
};
[[nodiscard]] NumberBytes number_bytes(Precision precision);

inline constexpr uint64_t kFloatBytes = 4;  // of fp32

// A whole that is divided equally: the share of one, rounded up.
[[nodiscard]] constexpr uint64_t divided(uint64_t whole, uint64_t by) {
  return (whole + by - 1) / by;
}

// Limits of a step, so that no sum of bytes overflows.
inline constexpr uint64_t kMaxTokens = uint64_t{1} << 27;

}  // namespace vram::plan
