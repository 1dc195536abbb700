#include "show/plan/model_text.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "plan/model/activations.hpp"
#include "plan/model/weights.hpp"
#include "show/draw/table.hpp"
#include "show/plan/model_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace vram::show {
namespace {

std::string bytes_or_dash(uint64_t bytes) { return bytes == 0 ? "–" : format_bytes(bytes); }

std::string count_text(const plan::Architecture& model) {
  const uint64_t count = plan::parameter_count(model);
  const uint64_t active = plan::active_parameter_count(model);
  std::string text = format_count(count) + " parameters";
  if (active < count) text += fmt::format(" ({} for a token)", format_count(active));
  return text;
}

std::string use_text(const plan::Task& task) {
  const std::string sequences =
      fmt::format("{} of {} tokens", counted(task.batch, "sequence"), format_count(task.sequence));
  const std::string_view precision = word_for(kPrecisions, task.precision);
  const std::string weights =
      task.quantization
          ? fmt::format("{}, {} weights", precision, word_for(kQuantizations, *task.quantization))
          : std::string(precision);
  if (task.use == plan::Use::kInfer) return fmt::format("inference, {}, {}", weights, sequences);
  const std::string kind =
      task.use == plan::Use::kTrain
          ? "training"
          : fmt::format("LoRA (rank {}, {})", task.rank, word_for(kTargets, task.targets));
  return fmt::format("{}, {}, {}, {}{}", kind, weights, word_for(kOptimizers, task.optimizer),
                     sequences, task.checkpoints ? ", checkpoints" : "");
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
                 ? " Each card has a copy of the model and its own batch."
                 : fmt::format(
                       " Each card has its own batch, and they share the {} (ZeRO stage {}).",
                       word_for(kShardings, plan.cards.front().share.sharding),
                       static_cast<int>(plan.cards.front().share.sharding));
    case plan::Split::kTensor:
      return " Each card has a part of every matrix.";
    case plan::Split::kDeviceMap:
      return " Each card has some layers, and one card runs after the other.";
    case plan::Split::kPipeline:
      return " Each card has some layers, and all run at once; the batch is a micro-batch.";
  }
  return "";
}

std::string fit_text(const ModelReport& report) {
  if (report.cards.empty()) return "";
  const uint64_t budget_bytes = report.cards[report.fullest().card].budget_bytes;
  const std::string batch = report.split.largest_batch == 0
                                ? "Not even one sequence fits."
                                : fmt::format("The largest batch that fits has {}.",
                                              counted(report.split.largest_batch, "sequence"));
  return fmt::format(" It {} {}, with {} for the program{}. {}{}",
                     report.split.fits ? "fits" : "does not fit", cards_text(report.cards),
                     format_bytes(budget_bytes), report.cards.size() > 1 ? " on the fullest" : "",
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
  page.paragraph(Line(),
                 fmt::format("Estimated: {}needs {}, in phase \"{}\".{}",
                             report.split.cards.size() > 1 ? "the fullest card " : "",
                             format_bytes(peak.total_bytes()), peak.name, fit_text(report)));
}

std::string layers_text(const plan::Share& share) {
  std::string text;
  if (share.has_embedding) text = "embedding, ";
  if (share.last > share.first) {
    text += share.last - share.first == 1
                ? fmt::format("layer {}, ", share.first)
                : fmt::format("layers {} – {}, ", share.first, share.last - 1);
  }
  if (share.has_head) text += "head, ";
  return text.substr(0, text.size() - 2);
}

void draw_layers(const ModelReport& report, Page& page) {
  const plan::SplitPlan& plan = report.split;
  if (plan.split != plan::Split::kDeviceMap && plan.split != plan::Split::kPipeline) return;
  page.heading("CARDS", plan.has_speeds ? "their layers, and an estimate of the time of each"
                                        : "their layers; all cards count as equally fast");
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
  page.heading("SHARDING", "what the cards share, and what each card then needs with this batch");
  Table table({{Align::kRight}, {}, {Align::kRight}, {Align::kLeft}});
  for (const plan::ShardingOption& each : report.split.shardings) {
    const std::string batch = each.largest_batch == 0
                                  ? "does not fit"
                                  : "largest batch " + format_count(each.largest_batch);
    table.add_row({Line(fmt::format("{}", static_cast<int>(each.sharding))),
                   Line(word_for(kShardings, each.sharding)), Line(format_bytes(each.card_bytes)),
                   Line(batch)});
  }
  page.add(table.draw(1, page.columns()));
}

void draw_phases(const plan::Estimate& estimate, Page& page) {
  page.heading("MEMORY", "requested bytes by formulas (docs/plan.md#models), not measured");
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
  std::vector<Line> total = {Line("total", Style::kStrong)};
  for (const plan::Phase& each : estimate.phases)
    total.emplace_back(format_bytes(each.total_bytes()),
                       &each == &estimate.peak() ? Style::kStrong : Style::kPlain);
  table.add_row(std::move(total));
  page.add(table.draw(1, page.columns()));
}

void draw_block(const ModelReport& report, Page& page) {
  if (report.task.use == plan::Use::kInfer) return;
  const std::vector<plan::Kept> kept = plan::kept_by(report.model.blocks.front(), report.task);
  page.heading("FIRST LAYER", fmt::format("what it keeps for its backward: {} for each token",
                                          format_bytes(plan::bytes_of(kept))));
  std::string text;
  for (const plan::Kept& each : kept)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", each.what, format_bytes(each.bytes));
  page.paragraph(Line("  "), text);
}

}  // namespace

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
