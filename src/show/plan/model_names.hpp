// The words for what a model is used for, on the command line, in text and in JSON.
#pragma once

#include "plan/model/architecture.hpp"
#include "plan/model/memory.hpp"
#include "plan/split/split.hpp"
#include "show/plan/emit.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace vram::show {

template <typename Meaning, size_t N>
using Named = std::array<std::pair<std::string_view, Meaning>, N>;

inline constexpr Named<plan::Use, 3> kUses = {
    {{"train", plan::Use::kTrain}, {"lora", plan::Use::kLora}, {"infer", plan::Use::kInfer}}};

inline constexpr Named<plan::Precision, 4> kPrecisions = {{{"fp32", plan::Precision::kFp32},
                                                           {"bf16", plan::Precision::kBf16},
                                                           {"autocast", plan::Precision::kAutocast},
                                                           {"mixed", plan::Precision::kMixed}}};

inline constexpr Named<plan::Optimizer, 6> kOptimizers = {
    {{"adamw", plan::Optimizer::kAdamW},
     {"adamw-fused", plan::Optimizer::kAdamWFused},
     {"adamw-8bit", plan::Optimizer::kAdamW8bit},
     {"momentum", plan::Optimizer::kMomentum},
     {"sgd", plan::Optimizer::kSgd},
     {"adafactor", plan::Optimizer::kAdafactor}}};

inline constexpr Named<plan::Quantization, 2> kQuantizations = {
    {{"int8", plan::Quantization::kInt8}, {"nf4", plan::Quantization::kNf4}}};

inline constexpr Named<plan::Targets, 3> kTargets = {{{"query-value", plan::Targets::kQueryValue},
                                                      {"attention", plan::Targets::kAttention},
                                                      {"linear", plan::Targets::kLinear}}};

inline constexpr Named<plan::Holder, plan::kHolders> kHolderNames = {
    {{"weights", plan::Holder::kWeights},
     {"optimizer", plan::Holder::kOptimizer},
     {"gradients", plan::Holder::kGradients},
     {"activations", plan::Holder::kActivations},
     {"logits", plan::Holder::kLogits},
     {"kv_cache", plan::Holder::kCache},
     {"communication", plan::Holder::kCommunication},
     {"temporaries", plan::Holder::kTemporaries}}};

inline constexpr Named<plan::Split, 5> kSplits = {{{"none", plan::Split::kNone},
                                                   {"shard", plan::Split::kShard},
                                                   {"tensor", plan::Split::kTensor},
                                                   {"device-map", plan::Split::kDeviceMap},
                                                   {"pipeline", plan::Split::kPipeline}}};

inline constexpr Named<plan::Sharding, 4> kShardings = {{{"nothing", plan::Sharding::kNone},
                                                         {"optimizer", plan::Sharding::kOptimizer},
                                                         {"gradients", plan::Sharding::kGradients},
                                                         {"weights", plan::Sharding::kWeights}}};

inline constexpr Named<EmitFormat, 4> kEmitFormats = {{{"hf-device-map", EmitFormat::kDeviceMap},
                                                       {"accelerate", EmitFormat::kAccelerate},
                                                       {"deepspeed", EmitFormat::kDeepSpeed},
                                                       {"fsdp", EmitFormat::kFsdp}}};

// The word for a meaning; every meaning has one.
template <typename Meaning, size_t N>
[[nodiscard]] std::string_view word_for(const Named<Meaning, N>& names, Meaning meaning) {
  for (const auto& [word, each] : names) {
    if (each == meaning) return word;
  }
  return {};
}

}  // namespace vram::show
