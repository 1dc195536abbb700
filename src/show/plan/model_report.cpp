#include "show/plan/model_report.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "plan/model/activations.hpp"
#include "plan/model/weights.hpp"
#include "show/draw/page.hpp"
#include "show/plan/model_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

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

std::string bytes_or_dash(uint64_t bytes) { return bytes == 0 ? "–" : format_bytes(bytes); }

std::string count_text(const plan::Architecture& model) {
  const uint64_t count = plan::parameter_count(model);
  const uint64_t active = plan::active_parameter_count(model);
  std::string text = format_count(count) + tr(" parameters");
  if (active < count) text += trf(" ({} for a token)", format_count(active));
  return text;
}

std::string use_text(const plan::Task& task) {
  const std::string sequences =
      trf("{} of {} tokens", counted(task.batch, "sequence"), format_count(task.sequence));
  const std::string_view precision = word_for(kPrecisions, task.precision);
  const std::string weights = task.quantization ? trf("{}, {} weights", precision,
                                                      word_for(kQuantizations, *task.quantization))
                                                : std::string(precision);
  if (task.use == plan::Use::kInfer) return trf("inference, {}, {}", weights, sequences);
  const std::string kind = task.use == plan::Use::kTrain ? "training"
                                                         : trf("LoRA (rank {}, {})", task.rank,
                                                               word_for(kTargets, task.targets));
  return fmt::format("{}, {}, {}, {}{}", kind, weights, word_for(kOptimizers, task.optimizer),
                     sequences, task.checkpoints ? tr(", checkpoints") : "");
}

// "4 × 24 GiB, RTX 4090"
std::string cards_text(const std::vector<plan::Card>& cards) {
  std::string text;
  for (size_t first = 0; first < cards.size();) {
    const auto end = std::find_if(cards.begin() + static_cast<ptrdiff_t>(first), cards.end(),
                                  [&](const auto& each) { return each != cards[first]; });
    const auto last = static_cast<size_t>(end - cards.begin());
    if (!text.empty()) text += ", ";
    if (last - first > 1) text += fmt::format("{} × ", last - first);
    text += cards[first].name;
    first = last;
  }
  return text;
}

std::string split_text(const plan::SplitPlan& plan) {
  switch (plan.split) {
    case plan::Split::kNone:
      return "";
    case plan::Split::kShard:
      return plan.cards.front().share.sharding == plan::Sharding::kNone
                 ? tr(" Each card has a copy of the model and its own batch.")
                 : trf(" Each card has its own batch, and they share the {} (ZeRO stage {}).",
                       word_for(kShardings, plan.cards.front().share.sharding),
                       static_cast<int>(plan.cards.front().share.sharding));
    case plan::Split::kTensor:
      return tr(" Each card has a part of every matrix.");
    case plan::Split::kDeviceMap:
      return tr(" Each card has some layers, and one card runs after the other.");
    case plan::Split::kPipeline:
      return tr(" Each card has some layers, and all run at once; the batch is a micro-batch.");
  }
  return "";
}

std::string fit_text(const ModelReport& report) {
  if (report.cards.empty()) return "";
  const uint64_t budget_bytes = report.cards[report.fullest().card].budget_bytes;
  const std::string batch = report.split.largest_batch == 0
                                ? tr("Not even one sequence fits.")
                                : trf("The largest batch that fits has {}.",
                                      counted(report.split.largest_batch, "sequence"));
  return trf(" It {} {}, with {} for the program{}. {}{}",
             report.split.fits ? tr("fits") : tr("does not fit"), cards_text(report.cards),
             format_bytes(budget_bytes), report.cards.size() > 1 ? tr(" on the fullest") : "",
             batch, split_text(report.split));
}

void draw_result(const ModelReport& report, Page& page) {
  page.add(Line(printable(report.path), Style::kStrong));
  page.paragraph(Line(),
                 fmt::format("{} · {} · {}", report.model.model_class, count_text(report.model),
                             counted(report.model.blocks.size(), "layer")));
  page.paragraph(Line(), use_text(report.task));
  page.blank();
  const plan::Phase& peak = report.fullest().estimate.peak();
  page.paragraph(Line(), trf("Estimated: {}needs {}, in phase \"{}\".{}",
                             report.split.cards.size() > 1 ? tr("the fullest card ") : "",
                             format_bytes(peak.total_bytes()), peak.name, fit_text(report)));
}

std::string layers_text(const plan::Share& share) {
  std::string text;
  if (share.has_embedding) text = tr("embedding, ");
  if (share.last > share.first) {
    text += share.last - share.first == 1 ? trf("layer {}, ", share.first)
                                          : trf("layers {} – {}, ", share.first, share.last - 1);
  }
  if (share.has_head) text += tr("head, ");
  return text.substr(0, text.size() - 2);
}

void draw_layers(const ModelReport& report, Page& page) {
  const plan::SplitPlan& plan = report.split;
  if (plan.split != plan::Split::kDeviceMap && plan.split != plan::Split::kPipeline) return;
  page.heading(tr("CARDS"), plan.has_speeds
                                ? tr("their layers, and an estimate of the time of each")
                                : tr("their layers; all cards count as equally fast"));
  Table table({{Align::kRight},
               {},
               {Align::kLeft, Shrink::kEnd},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight}});
  for (const plan::CardShare& each : plan.cards) {
    const plan::Card& card = report.cards[each.card];
    const uint64_t peak = each.estimate.peak_bytes();
    table.add_row(
        {Line(fmt::format("{}", each.card)), Line(card.name), Line(layers_text(each.share)),
         Line(format_bytes(peak)), Line(format_share(peak, card.budget_bytes)),
         Line(plan.has_speeds ? format_duration_ns(static_cast<int64_t>(each.time_ns)) : "")});
  }
  page.add(table.draw(1, page.columns()));
}

void draw_shardings(const ModelReport& report, Page& page) {
  if (report.split.shardings.empty()) return;
  page.heading(tr("SHARDING"),
               tr("what the cards share, and what each card then needs with this batch"));
  Table table({{Align::kRight}, {}, {Align::kRight}, {Align::kLeft}});
  for (const plan::ShardingOption& each : report.split.shardings) {
    const std::string batch = each.largest_batch == 0
                                  ? tr("does not fit")
                                  : tr("largest batch ") + format_count(each.largest_batch);
    table.add_row({Line(fmt::format("{}", static_cast<int>(each.sharding))),
                   Line(word_for(kShardings, each.sharding)), Line(format_bytes(each.card_bytes)),
                   Line(batch)});
  }
  page.add(table.draw(1, page.columns()));
}

void draw_phases(const plan::Estimate& estimate, Page& page) {
  page.heading(tr("MEMORY"), tr("requested bytes by formulas (docs/plan.md#models), not measured"));
  std::vector<Column> columns(1 + estimate.phases.size(), Column{Align::kRight});
  columns.front() = {};
  columns.push_back({Align::kLeft, Shrink::kEnd, true});
  Table table(columns);
  std::vector<Line> head = {Line()};
  for (const plan::Phase& each : estimate.phases) head.emplace_back(each.name, Style::kFaint);
  table.add_row(std::move(head));
  for (const auto& [name, holder] : kHolderNames) {
    const auto of = [&](const plan::Phase& phase) { return phase.of(holder); };
    if (std::ranges::all_of(estimate.phases, [&](const auto& each) { return of(each) == 0; }))
      continue;
    std::vector<Line> row = {Line(name)};
    for (const plan::Phase& each : estimate.phases) row.emplace_back(bytes_or_dash(of(each)));
    row.emplace_back(estimate.formulas[static_cast<size_t>(holder)], Style::kFaint);
    table.add_row(std::move(row));
  }
  std::vector<Line> total = {Line(tr("total"), Style::kStrong)};
  for (const plan::Phase& each : estimate.phases)
    total.emplace_back(format_bytes(each.total_bytes()),
                       &each == &estimate.peak() ? Style::kStrong : Style::kPlain);
  table.add_row(std::move(total));
  page.add(table.draw(1, page.columns()));
}

void draw_block(const ModelReport& report, Page& page) {
  if (report.task.use == plan::Use::kInfer) return;
  const std::vector<plan::Kept> kept = plan::kept_by(report.model.blocks.front(), report.task);
  page.heading(tr("FIRST LAYER"), trf("what it keeps for its backward: {} for each token",
                                      format_bytes(plan::bytes_of(kept))));
  std::string text;
  for (const plan::Kept& each : kept)
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : tr(", "), each.what, format_bytes(each.bytes));
  page.paragraph(Line("  "), text);
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

std::string draw_model(const ModelReport& report, const TextOptions& options) {
  Page page(options);
  draw_result(report, page);
  draw_layers(report, page);
  draw_shardings(report, page);
  draw_phases(report.fullest().estimate, page);
  draw_block(report, page);
  return page.finish();
}

}  // namespace vram::show
