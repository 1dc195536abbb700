// How a model is divided between several cards, equal or not, so that a task fits. Pure functions.
#pragma once

#include "plan/model/memory.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::plan {

enum class Split : uint8_t {
  kNone,       // one card
  kShard,      // data parallelism: each card has its own batch, and all share what `Sharding` says
  kTensor,     // each card has a part of each matrix
  kDeviceMap,  // each card has some layers, and one card runs after the other
  kPipeline,   // the same, and all cards run at once on different micro-batches; uses all cards
};

struct Card {
  std::string name;
  uint64_t budget_bytes = 0;

  bool operator==(const Card&) const = default;
};

struct CardShare {
  size_t card = 0;  // its number
  Share share;
  Estimate estimate;
  uint64_t time_ns = 0;  // of its layers, if layers are divided; estimated
};

// One way to shard.
struct ShardingOption {
  Sharding sharding = Sharding::kNone;
  uint64_t card_bytes = 0;     // on each card, with the plan's batch
  uint64_t largest_batch = 0;  // on each card; 0: nothing fits
};

struct SplitPlan {
  Split split = Split::kNone;
  uint64_t batch = 1;          // of a card, or of a pipeline's micro-batch
  uint64_t largest_batch = 0;  // that fits
  bool fits = false;
  std::vector<CardShare> cards{};           // those that are used, in the order of the layers
  std::vector<ShardingOption> shardings{};  // of kShard: every way
  bool has_speeds = false;                  // otherwise all cards count as equally fast
};

struct SplitRequest {
  Split split = Split::kNone;
  std::vector<Card> cards;           // at least one
  bool has_given_batch = true;       // otherwise the largest that fits is planned
  Sharding least = Sharding::kNone;  // of kShard: lesser ones are not considered
};

// kTooLarge: the layers do not fit on the cards, whatever the batch. kBadInput: this model cannot
// be divided so.
[[nodiscard]] Result<SplitPlan> plan_split(const Architecture& model, const Task& task,
                                           const SplitRequest& request);

// The index of the card of each module, as Transformers names modules: the embedding's, the
// layers', the norm's and the head's. Of layers that are divided.
[[nodiscard]] std::vector<std::pair<std::string, size_t>> device_map(const Architecture& model,
                                                                     const SplitPlan& plan);

}  // namespace vram::plan
