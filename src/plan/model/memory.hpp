// The memory of a task on one card, by what holds it and by the phases of a step. An estimate by
// formulas: docs/plan.md has them, and by how much they differ from dry runs. Pure functions.
#pragma once

#include "plan/model/architecture.hpp"
#include "plan/model/parts.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::plan {

// What data parallelism divides between its cards: nothing, or ZeRO's stages 1 to 3.
enum class Sharding : uint8_t { kNone, kOptimizer, kGradients, kWeights };

inline constexpr uint64_t kMaxCards = 64;

// What of a model one card holds. Blocks [first, last).
struct Share {
  size_t first = 0;
  size_t last = 0;
  bool has_embedding = true;
  bool has_head = true;
  uint64_t cards = 1;  // of data parallelism
  Sharding sharding = Sharding::kNone;
  uint64_t in_flight = 1;  // micro-batches whose activations exist at once, of a pipeline
};
// The whole model on one card.
[[nodiscard]] Share whole(const Architecture& model);

enum class Holder : uint8_t {
  kWeights,
  kOptimizer,
  kGradients,
  kActivations,
  kLogits,
  kCache,
  kCommunication,
  kTemporaries,
};
inline constexpr size_t kHolders = 8;

struct Phase {
  std::string_view name;  // "loss", "backward", "optimizer step", "prefill", "decode"
  std::array<uint64_t, kHolders> bytes = {};

  [[nodiscard]] uint64_t& of(Holder holder) { return bytes[static_cast<size_t>(holder)]; }
  [[nodiscard]] uint64_t of(Holder holder) const { return bytes[static_cast<size_t>(holder)]; }
  [[nodiscard]] uint64_t total_bytes() const;
};

struct Estimate {
  std::vector<Phase> phases;                   // at least one
  std::array<std::string, kHolders> formulas;  // how each holder's bytes come about

  [[nodiscard]] const Phase& peak() const;
  [[nodiscard]] uint64_t peak_bytes() const { return peak().total_bytes(); }
};

// Whether the task can be estimated for this model. The others require a task that passed.
[[nodiscard]] Result<> check(const Architecture& model, const Task& task);

// The memory of shares of one model for one task. The model must outlive it.
class Memory {
 public:
  // `tensor`: the cards among which tensor parallelism divides the matrices.
  Memory(const Architecture& model, const Task& task, uint64_t tensor = 1);

  [[nodiscard]] Estimate estimate(const Share& share) const;
  // The same peak, without formulas: for searches.
  [[nodiscard]] uint64_t peak_bytes(const Share& share) const;
  [[nodiscard]] const Parts& parts() const { return parts_; }

 private:
  const Architecture& model_;
  Task task_;
  Parts parts_;
};

// Buckets in which gradients and weights are exchanged between cards that share optimizer states or
// gradients: numbers, of which there are two buckets.
inline constexpr uint64_t kBucketNumbers = 200'000'000;
// ZeRO-3 and FSDP gather the part that runs and the next one.
inline constexpr uint64_t kGatheredParts = 2;

}  // namespace vram::plan
