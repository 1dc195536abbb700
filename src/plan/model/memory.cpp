#include "plan/model/memory.hpp"

#include "base/bytes.hpp"
#include "plan/model/activations.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace vram::plan {
namespace {

// cuBLAS keeps this for the matrix multiplications of a thread, on GPUs from Hopper on; on older
// ones 8 MiB. PyTorch runs the backward in a thread of its own.
constexpr uint64_t kWorkspaceBytes = 32 * kMiB;

// Of all activations. No sum overflows with fewer, kMaxTokens tokens and kMaxCards micro-batches.
constexpr uint64_t kMaxTokenBytes = kGiB;

bool has_head_bias(const Architecture& model) {
  return std::ranges::any_of(model.head, [&](const Weight& each) {
    return each.inputs == 1 && each.outputs == model.vocabulary;
  });
}

uint64_t divisor(const Share& share, Sharding from) {
  return share.sharding >= from ? share.cards : 1;
}

// Makes the phases of a task on one share.
class Estimator {
 public:
  Estimator(const Architecture& model, const Task& task, const Parts& parts, const Share& share)
      : model_(model), task_(task), parts_(parts), share_(share), total_(total()) {}

  [[nodiscard]] std::vector<Phase> phases() const;
  void write_formulas(Estimate& estimate) const;

 private:
  [[nodiscard]] Phase base(std::string_view name) const;
  [[nodiscard]] Phase loss() const;
  [[nodiscard]] Phase head_backward() const;
  [[nodiscard]] Phase backward() const;
  [[nodiscard]] Phase step() const;
  [[nodiscard]] Phase prefill() const;
  [[nodiscard]] Phase head_forward() const;
  [[nodiscard]] Phase decode() const;

  [[nodiscard]] StaticBytes total() const;
  [[nodiscard]] StaticBytes head() const;
  // What the embedding and the blocks before `end` keep, for a token.
  [[nodiscard]] uint64_t kept_bytes(size_t end) const;
  [[nodiscard]] uint64_t cast_bytes(size_t end) const;
  [[nodiscard]] uint64_t communication_bytes() const;
  [[nodiscard]] uint64_t gradient_bytes(uint64_t bytes) const {
    return divided(bytes, divisor(share_, Sharding::kGradients));
  }
  // A block's input, for a token.
  [[nodiscard]] uint64_t checkpoint_bytes() const {
    return model_.hidden * number_bytes(task_.precision).residual;
  }
  // Whether gradients exist before the backward.
  [[nodiscard]] bool has_standing_gradients() const {
    return task_.accumulates || share_.in_flight > 1;
  }
  // Of the head's matrix. A tied one is the embedding's too, whose gradient is another tensor until
  // both are added.
  [[nodiscard]] uint64_t head_gradients() const {
    return share_.has_head ? parts_.head.gradients + parts_.tied.gradients : 0;
  }

  const Architecture& model_;
  const Task& task_;
  const Parts& parts_;
  const Share& share_;
  StaticBytes total_;
};

// A share with a tied head and without the embedding has a copy of the matrix.
StaticBytes Estimator::head() const {
  StaticBytes bytes = parts_.head;
  if (!share_.has_embedding) bytes += parts_.tied;
  return bytes;
}

StaticBytes Estimator::total() const {
  StaticBytes sum;
  if (share_.has_embedding) sum += parts_.embedding;
  for (size_t i = share_.first; i < share_.last; ++i) sum += parts_.blocks[i];
  if (share_.has_head) sum += head();
  return sum;
}

uint64_t Estimator::kept_bytes(size_t end) const {
  uint64_t bytes = share_.has_embedding ? parts_.embedding_token.kept : 0;
  for (size_t i = share_.first; i < end; ++i)
    bytes += task_.checkpoints ? checkpoint_bytes() : parts_.block_tokens[i].kept;
  return bytes;
}

uint64_t Estimator::cast_bytes(size_t end) const {
  uint64_t bytes = 0;
  for (size_t i = share_.first; i < end; ++i) bytes += parts_.blocks[i].cast;
  return bytes;
}

uint64_t Estimator::communication_bytes() const {
  if (share_.cards == 1 || task_.use == Use::kInfer) return 0;
  const NumberBytes number = number_bytes(task_.precision);
  switch (share_.sharding) {
    case Sharding::kNone:  // DistributedDataParallel's buckets
      return total_.gradients;
    case Sharding::kOptimizer:
    case Sharding::kGradients:
      return 2 * std::min(kBucketNumbers, total_.trained) * number.gradient;
    case Sharding::kWeights:
      return largest_part(parts_) * (kGatheredParts * number.compute + number.gradient);
  }
  return 0;
}

Phase Estimator::base(std::string_view name) const {
  Phase phase = {.name = name};
  phase.of(Holder::kWeights) = divided(total_.weights, divisor(share_, Sharding::kWeights));
  phase.of(Holder::kOptimizer) = divided(total_.optimizer, divisor(share_, Sharding::kOptimizer));
  phase.of(Holder::kCommunication) = communication_bytes();
  phase.of(Holder::kTemporaries) = kWorkspaceBytes * (task_.use == Use::kInfer ? 1 : 2);
  if (has_standing_gradients()) phase.of(Holder::kGradients) = gradient_bytes(total_.gradients);
  return phase;
}

Phase Estimator::loss() const {
  Phase phase = base(share_.has_head ? "loss" : "end of forward");
  uint64_t token = share_.in_flight * kept_bytes(share_.last);
  phase.of(Holder::kTemporaries) += cast_bytes(share_.last);
  if (share_.has_head) {
    token += parts_.head_token.kept;
    phase.of(Holder::kTemporaries) += parts_.head.cast + parts_.tied.cast;
    phase.of(Holder::kLogits) = parts_.loss_token * task_.tokens();
  }
  phase.of(Holder::kActivations) = token * task_.tokens();
  return phase;
}

// The gradient of the head's matrix comes into being, and all activations are still there.
Phase Estimator::head_backward() const {
  Phase phase = loss();
  phase.name = "head's backward";
  phase.of(Holder::kLogits) = parts_.logit_gradient_token * task_.tokens();
  if (!has_standing_gradients()) phase.of(Holder::kGradients) = gradient_bytes(head_gradients());
  if (task_.use == Use::kTrain && has_head_bias(model_))
    phase.of(Holder::kTemporaries) += bias_sum_bytes(task_.tokens(), model_.vocabulary);
  return phase;
}

// Of all blocks, the one whose backward needs most.
Phase Estimator::backward() const {
  const uint64_t others = (share_.in_flight - 1) * kept_bytes(share_.last);
  uint64_t kept = kept_bytes(share_.last);
  uint64_t cast = cast_bytes(share_.last);
  uint64_t gradients = head_gradients();
  Phase most;
  for (size_t i = share_.last; i-- > share_.first;) {
    const TokenBytes& token = parts_.block_tokens[i];
    gradients += parts_.blocks[i].gradients;
    Phase phase = base("backward");
    phase.of(Holder::kActivations) =
        (others + kept + (task_.checkpoints ? token.kept : 0)) * task_.tokens();
    phase.of(Holder::kTemporaries) += token.backward * task_.tokens() + cast;
    if (!has_standing_gradients()) phase.of(Holder::kGradients) = gradient_bytes(gradients);
    if (phase.total_bytes() > most.total_bytes()) most = phase;
    kept -= task_.checkpoints ? checkpoint_bytes() : token.kept;
    cast -= parts_.blocks[i].cast;
  }
  return most;
}

Phase Estimator::step() const {
  Phase phase = base("optimizer step");
  phase.of(Holder::kGradients) = gradient_bytes(total_.gradients);
  phase.of(Holder::kTemporaries) += divided(total_.step, divisor(share_, Sharding::kOptimizer));
  return phase;
}

Phase Estimator::prefill() const {
  Phase phase = base(model_.is_causal ? "prefill" : "forward");
  uint64_t most = 0;
  for (size_t i = share_.first; i < share_.last; ++i) {
    most = std::max(most, parts_.block_tokens[i].forward);
    phase.of(Holder::kCache) += parts_.prefill_cache[i];
  }
  phase.of(Holder::kTemporaries) += most * task_.tokens();
  // The logits of the last token only, and in fp32; a model that is not causal has no last one.
  if (share_.has_head && model_.is_causal)
    phase.of(Holder::kLogits) = 3 * parts_.logit_gradient_token * task_.batch;
  return phase;
}

Phase Estimator::head_forward() const {
  Phase phase = base("head");
  phase.of(Holder::kLogits) = parts_.head_forward_token * task_.tokens();
  return phase;
}

// Each token makes new tensors of a block's keys or values while the old ones exist.
Phase Estimator::decode() const {
  Phase phase = base("decode");
  uint64_t most = 0;
  for (size_t i = share_.first; i < share_.last; ++i) {
    most = std::max(most, parts_.cache[i] / 2);
    phase.of(Holder::kCache) += parts_.cache[i];
  }
  phase.of(Holder::kTemporaries) += most;
  if (share_.has_head) phase.of(Holder::kLogits) = 3 * parts_.logit_gradient_token * task_.batch;
  return phase;
}

std::vector<Phase> Estimator::phases() const {
  if (task_.use == Use::kInfer) {
    if (model_.is_causal) return {prefill(), decode()};
    std::vector<Phase> forward = {prefill()};
    if (share_.has_head) forward.push_back(head_forward());
    return forward;
  }
  std::vector<Phase> phases = {loss()};
  if (share_.has_head) phases.push_back(head_backward());
  if (share_.last > share_.first) phases.push_back(backward());
  phases.push_back(step());
  return phases;
}

// "6,738,415,616 × 2 B"
std::string product(uint64_t count, const char* things, uint64_t bytes) {
  const double each = count == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(count);
  return fmt::format("{} {} × {:.4g} B", format_count(count), things, each);
}

void Estimator::write_formulas(Estimate& estimate) const {
  const auto write = [&](Holder holder, std::string text) {
    estimate.formulas[static_cast<size_t>(holder)] = std::move(text);
  };
  const auto among = [&](Sharding from) {
    return divisor(share_, from) == 1 ? "" : fmt::format(" / {} cards", share_.cards);
  };
  const std::string tokens = format_count(task_.tokens()) + " tokens";
  write(Holder::kWeights,
        product(total_.numbers, "parameters", total_.weights) + among(Sharding::kWeights));
  write(Holder::kOptimizer,
        product(total_.trained, "trained", total_.optimizer) + among(Sharding::kOptimizer));
  write(Holder::kGradients,
        product(total_.trained, "trained", total_.gradients) + among(Sharding::kGradients));
  write(Holder::kCache,
        fmt::format("{} × {} tokens × {}", task_.batch, format_count(task_.sequence),
                    counted(share_.last - share_.first, "layer")));
  const bool is_last = task_.use == Use::kInfer && model_.is_causal;
  write(Holder::kLogits, fmt::format("{} × vocabulary {}", is_last ? "last token" : tokens,
                                     format_count(model_.vocabulary)));
  const uint64_t kept = kept_bytes(share_.last) + (share_.has_head ? parts_.head_token.kept : 0);
  write(Holder::kActivations, fmt::format("{} × {}{}", tokens, format_bytes(kept),
                                          task_.checkpoints ? ", and one layer's" : ""));
}

}  // namespace

Share whole(const Architecture& model) { return {.first = 0, .last = model.blocks.size()}; }

uint64_t Phase::total_bytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

const Phase& Estimate::peak() const {
  return *std::ranges::max_element(phases, {}, &Phase::total_bytes);
}

Result<> check(const Architecture& model, const Task& task) {
  uint64_t kept = bytes_of(kept_by_head(model, task));
  for (const Block& each : model.blocks) kept += bytes_of(kept_by(each, task));
  if (kept > kMaxTokenBytes)
    return fail(Code::kTooLarge, "a token's activations have {}; at most {} are supported",
                format_bytes(kept), format_bytes(kMaxTokenBytes));
  if (task.tokens() > kMaxTokens || task.batch > kMaxTokens || task.sequence > kMaxTokens)
    return fail(Code::kTooLarge, "{} sequences of {} tokens are more than {} tokens at once",
                task.batch, task.sequence, format_count(kMaxTokens));
  if (model.has_learned_positions && task.sequence > model.positions)
    return fail(Code::kBadInput,
                "sequences of {} tokens are longer than the model's {} positions, which are "
                "learned: use --sequence {}",
                task.sequence, model.positions, model.positions);
  if (task.use == Use::kTrain && task.quantization)
    return fail(Code::kBadInput,
                "quantized weights cannot be trained: use --use lora or infer, or leave out "
                "--quantize");
  return {};
}

Memory::Memory(const Architecture& model, const Task& task, uint64_t tensor)
    : model_(model), task_(task), parts_(parts_of(model, task, tensor)) {}

Estimate Memory::estimate(const Share& share) const {
  const Estimator estimator(model_, task_, parts_, share);
  Estimate estimate = {.phases = estimator.phases(), .formulas = {}};
  estimator.write_formulas(estimate);
  return estimate;
}

uint64_t Memory::peak_bytes(const Share& share) const {
  uint64_t peak = 0;
  for (const Phase& each : Estimator(model_, task_, parts_, share).phases())
    peak = std::max(peak, each.total_bytes());
  return peak;
}

}  // namespace vram::plan
