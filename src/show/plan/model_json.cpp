#include "show/plan/model_json.hpp"

#include "base/json.hpp"
#include "plan/model/activations.hpp"
#include "plan/model/weights.hpp"
#include "show/plan/model_names.hpp"

#include <utility>

namespace vram::show {
namespace {

Json json_model(const ModelReport& report) {
  const plan::Architecture& model = report.model;
  return {{"family", model.family},
          {"class", model.model_class},
          {"parameters", plan::parameter_count(model)},
          {"active_parameters", plan::active_parameter_count(model)},
          {"layers", model.blocks.size()}};
}

Json json_task(const plan::Task& task) {
  const bool trains = task.use != plan::Use::kInfer;
  return {
      {"use", word_for(kUses, task.use)},
      {"precision", word_for(kPrecisions, task.precision)},
      {"quantization",
       task.quantization ? Json(word_for(kQuantizations, *task.quantization)) : Json()},
      {"optimizer", trains ? Json(word_for(kOptimizers, task.optimizer)) : Json()},
      {"batch", task.batch},
      {"sequence", task.sequence},
      {"checkpoints", task.checkpoints},
      {"accumulates", task.accumulates},
      {"rank", task.use == plan::Use::kLora ? Json(task.rank) : Json()},
      {"targets", task.use == plan::Use::kLora ? Json(word_for(kTargets, task.targets)) : Json()}};
}

Json json_phase(const plan::Phase& phase) {
  Json json = {{"name", phase.name}, {"total_bytes", phase.total_bytes()}};
  for (const auto& [name, holder] : kHolderNames)
    json[std::string(name) + "_bytes"] = phase.of(holder);
  return json;
}

Json json_kept(const ModelReport& report) {
  Json json = Json::array();
  if (report.task.use == plan::Use::kInfer) return json;
  for (const plan::Kept& each : plan::kept_by(report.model.blocks.front(), report.task))
    json.push_back({{"what", each.what}, {"token_bytes", each.bytes}});
  return json;
}

Json json_card(const ModelReport& report, const plan::CardShare& share) {
  const bool is_named = !report.cards.empty();
  const bool has_layers =
      report.split.split == plan::Split::kDeviceMap || report.split.split == plan::Split::kPipeline;
  Json phases = Json::array();
  for (const plan::Phase& each : share.estimate.phases) phases.push_back(json_phase(each));
  return {{"card", share.card},
          {"name", is_named ? json_text(report.cards[share.card].name) : Json()},
          {"budget_bytes", is_named ? Json(report.cards[share.card].budget_bytes) : Json()},
          {"peak_bytes", share.estimate.peak_bytes()},
          {"peak_phase", share.estimate.peak().name},
          {"phases", std::move(phases)},
          {"first_layer", share.share.first},
          {"layers", share.share.last - share.share.first},
          {"has_embedding", share.share.has_embedding},
          {"has_head", share.share.has_head},
          {"time_ns", has_layers && report.split.has_speeds ? Json(share.time_ns) : Json()}};
}

Json json_sharding(const plan::ShardingOption& option) {
  return {{"shared", word_for(kShardings, option.sharding)},
          {"zero_stage", static_cast<int>(option.sharding)},
          {"card_bytes", option.card_bytes},
          {"largest_batch", option.largest_batch}};
}

}  // namespace

std::string model_json(const ModelReport& report) {
  const bool is_named = !report.cards.empty();
  Json cards = Json::array();
  for (const plan::CardShare& each : report.split.cards) cards.push_back(json_card(report, each));
  Json shardings = Json::array();
  for (const plan::ShardingOption& each : report.split.shardings)
    shardings.push_back(json_sharding(each));
  const plan::Share& share = report.split.cards.front().share;
  const Json document = {{"schema", "vram.model_plan/1"},
                         {"model", json_model(report)},
                         {"task", json_task(report.task)},
                         {"split", word_for(kSplits, report.split.split)},
                         {"shared", word_for(kShardings, share.sharding)},
                         {"peak_bytes", report.fullest().estimate.peak_bytes()},
                         {"fits", is_named ? Json(report.split.fits) : Json()},
                         {"largest_batch", is_named ? Json(report.split.largest_batch) : Json()},
                         {"cards", std::move(cards)},
                         {"shardings", std::move(shardings)},
                         {"kept_by_first_layer", json_kept(report)}};
  return document.dump(2) + "\n";
}

}  // namespace vram::show
