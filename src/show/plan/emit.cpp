#include "show/plan/emit.hpp"

#include "base/export_marks.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "plan/model/parts.hpp"
#include "show/plan/model_names.hpp"

#include <fmt/format.h>

namespace vram::show {
namespace {

using plan::Precision;
using plan::Sharding;
using plan::Split;

Result<> require_split(const ModelReport& report, Split split, EmitFormat format) {
  if (report.split.split == split) return {};
  return fail(Code::kBadInput, "--emit {} writes --split {}, found --split {}",
              word_for(kEmitFormats, format), word_for(kSplits, split),
              word_for(kSplits, report.split.split));
}

// DeepSpeed and FSDP have fp32 weights in the optimizer when they compute in bf16.
Result<> require_precision(const ModelReport& report, EmitFormat format) {
  const Precision precision = report.task.precision;
  if (precision == Precision::kMixed || precision == Precision::kFp32) return {};
  return fail(Code::kBadInput, "--emit {} writes --precision mixed or fp32, found {}",
              word_for(kEmitFormats, format), word_for(kPrecisions, precision));
}

Sharding sharding_of(const ModelReport& report) {
  return report.split.cards.front().share.sharding;
}

int stage_of(Sharding sharding) { return static_cast<int>(sharding); }

std::string_view mixed_precision(const ModelReport& report) {
  return report.task.precision == Precision::kMixed ? "bf16" : "'no'";
}

// With the mark by which a later plan may replace the file.
std::string marked(const Json& document) {
  return std::string(kPlanJsonStart) + document.dump(2).substr(std::string_view("{\n").size()) +
         "\n";
}

Result<std::string> device_map_json(const ModelReport& report) {
  VRAM_TRY(require_split(report, Split::kDeviceMap, EmitFormat::kDeviceMap));
  Json map = Json::object();
  for (const auto& [module, card] : plan::device_map(report.model, report.split))
    map[module] = card;
  return marked(map);
}

Result<std::string> deepspeed_json(const ModelReport& report) {
  VRAM_TRY(require_split(report, Split::kShard, EmitFormat::kDeepSpeed));
  VRAM_TRY(require_precision(report, EmitFormat::kDeepSpeed));
  const Sharding sharding = sharding_of(report);
  Json zero = {{"stage", stage_of(sharding)}};
  const uint64_t largest = plan::largest_part(plan::parts_of(report.model, report.task, 1));
  if (sharding == Sharding::kOptimizer || sharding == Sharding::kGradients)
    zero.update({{"overlap_comm", false},
                 {"contiguous_gradients", true},
                 {"reduce_bucket_size", plan::kBucketNumbers},
                 {"allgather_bucket_size", plan::kBucketNumbers}});
  if (sharding == Sharding::kWeights)
    zero.update({{"overlap_comm", false},
                 {"contiguous_gradients", true},
                 {"reduce_bucket_size", largest},
                 {"stage3_prefetch_bucket_size", largest},
                 {"stage3_max_live_parameters", plan::kGatheredParts * largest},
                 {"stage3_max_reuse_distance", plan::kGatheredParts * largest}});
  const Json document = {{"train_micro_batch_size_per_gpu", report.task.batch},
                         {"gradient_accumulation_steps", 1},
                         {"bf16", {{"enabled", report.task.precision != Precision::kFp32}}},
                         {"zero_optimization", std::move(zero)}};
  return marked(document);
}

// What begins both YAML files of accelerate.
std::string accelerate_head(const ModelReport& report, std::string_view kind) {
  return fmt::format(
      "{}{}{}\n"
      "compute_environment: LOCAL_MACHINE\n"
      "distributed_type: {}\n"
      "machine_rank: 0\n"
      "main_training_function: main\n"
      "mixed_precision: {}\n"
      "num_machines: 1\n"
      "num_processes: {}\n"
      "rdzv_backend: static\n"
      "same_network: true\n"
      "use_cpu: false\n",
      kPlanYamlStart, kTextEnd, VRAM_VERSION, kind, mixed_precision(report),
      report.split.cards.size());
}

Result<std::string> fsdp_yaml(const ModelReport& report) {
  VRAM_TRY(require_split(report, Split::kShard, EmitFormat::kFsdp));
  VRAM_TRY(require_precision(report, EmitFormat::kFsdp));
  return accelerate_head(report, "FSDP") + fmt::format(
                                               "fsdp_config:\n"
                                               "  fsdp_version: 2\n"
                                               "  fsdp_reshard_after_forward: {}\n"
                                               "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                                               "  fsdp_transformer_layer_cls_to_wrap: {}\n"
                                               "  fsdp_activation_checkpointing: {}\n"
                                               "  fsdp_cpu_ram_efficient_loading: true\n"
                                               "  fsdp_offload_params: false\n"
                                               "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
                                               sharding_of(report) == Sharding::kWeights,
                                               report.model.layer_class, report.task.checkpoints);
}

Result<std::string> accelerate_yaml(const ModelReport& report) {
  if (report.split.cards.size() == 1) return accelerate_head(report, "'NO'");
  VRAM_TRY(require_split(report, Split::kShard, EmitFormat::kAccelerate));
  if (sharding_of(report) == Sharding::kNone) return accelerate_head(report, "MULTI_GPU");
  VRAM_TRY(require_precision(report, EmitFormat::kAccelerate));
  return accelerate_head(report, "DEEPSPEED") + fmt::format(
                                                    "deepspeed_config:\n"
                                                    "  zero_stage: {}\n"
                                                    "  gradient_accumulation_steps: 1\n"
                                                    "  offload_optimizer_device: none\n"
                                                    "  offload_param_device: none\n"
                                                    "  zero3_init_flag: {}\n"
                                                    "  zero3_save_16bit_model: {}\n",
                                                    stage_of(sharding_of(report)),
                                                    sharding_of(report) == Sharding::kWeights,
                                                    sharding_of(report) == Sharding::kWeights);
}

}  // namespace

Result<std::string> emit(EmitFormat format, const ModelReport& report) {
  switch (format) {
    case EmitFormat::kDeviceMap:
      return device_map_json(report);
    case EmitFormat::kAccelerate:
      return accelerate_yaml(report);
    case EmitFormat::kDeepSpeed:
      return deepspeed_json(report);
    case EmitFormat::kFsdp:
      return fsdp_yaml(report);
  }
  return fail(Code::kBadInput, "unknown format");
}

}  // namespace vram::show
