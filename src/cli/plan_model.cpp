#include "cli/plan_model.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "plan/model/families.hpp"
#include "show/plan/emit.hpp"
#include "show/plan/model_names.hpp"
#include "show/plan/model_report.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

namespace vram::cli {
namespace {

// Longer sequences than this are not assumed.
constexpr uint64_t kDefaultSequence = 4096;
constexpr uint64_t kMaxRank = 65536;

template <typename Meaning, size_t N>
Words<Meaning> words_of(const show::Named<Meaning, N>& names) {
  Words<Meaning> words;
  for (const auto& [word, meaning] : names) words.emplace_back(word, meaning);
  return words;
}

// A number from 1 to `max`.
auto from_one_to(uint64_t max) {
  return [max](std::string_view option, const std::string& text) -> Result<uint64_t> {
    VRAM_TRY_ASSIGN(const auto number, parse_whole(option, text, max));
    if (number == 0) return fail(Code::kBadInput, "{}: expected 1 or more, found 0", option);
    return number;
  };
}

plan::Task task_of(const ModelRequest& request, const plan::Architecture& model) {
  plan::Task task;
  task.use = request.use.value_or(plan::Use::kTrain);
  const bool trains = task.use == plan::Use::kTrain;
  task.precision =
      request.precision.value_or(trains ? plan::Precision::kMixed : plan::Precision::kBf16);
  task.optimizer = request.optimizer.value_or(plan::Optimizer::kAdamW);
  task.quantization = request.quantization;
  task.batch = request.batch.value_or(1);
  task.sequence = request.sequence.value_or(std::min(model.positions, kDefaultSequence));
  task.checkpoints = request.checkpoints;
  task.accumulates = request.accumulates;
  task.rank = request.rank.value_or(task.rank);
  task.targets = request.targets.value_or(task.targets);
  task.cached_bytes = request.cached_bytes.value_or(number_bytes(task.precision).compute);
  return task;
}

// Each option that the use has nothing to do with.
Result<> check_use(const ModelRequest& request, plan::Use use) {
  const bool trains = use != plan::Use::kInfer;
  const bool is_lora = use == plan::Use::kLora;
  const std::array kRules = {
      std::tuple("--optimizer", request.optimizer.has_value(), trains, tr("train and lora")),
      std::tuple("--checkpoint", request.checkpoints, trains, tr("train and lora")),
      std::tuple("--accumulate", request.accumulates, trains, tr("train and lora")),
      std::tuple("--rank", request.rank.has_value(), is_lora, "lora"),
      std::tuple("--targets", request.targets.has_value(), is_lora, "lora"),
      std::tuple("--kv-dtype", request.cached_bytes.has_value(), !trains, "infer")};
  for (const auto& [name, is_given, applies, uses] : kRules) {
    if (is_given && !applies)
      return fail(Code::kBadInput, "{} applies to --use {}, found --use {}", name, uses,
                  show::word_for(show::kUses, use));
  }
  return {};
}

// "4x H100 80GB" -> 4, "H100 80GB".
std::pair<uint64_t, std::string_view> counted_card(std::string_view text) {
  const auto trim = [](std::string_view word) {
    while (word.starts_with(' ')) word.remove_prefix(1);
    return word;
  };
  text = trim(text);
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > 3 || text.substr(digits, 1) != "x") return {1, text};
  uint64_t count = 0;
  for (const char c : text.substr(0, digits)) count = 10 * count + static_cast<uint64_t>(c - '0');
  return {count, trim(text.substr(digits + 1))};
}

// --gpu, or --budget as one card.
std::vector<plan::Card> cards_of(const PlanRequest& request) {
  std::vector<plan::Card> cards;
  for (const CardMemory& each : request.gpus.list)
    cards.push_back({each.name, each.allocator_bytes()});
  if (request.budget_bytes) cards.push_back({tr("the budget"), *request.budget_bytes});
  return cards;
}

Result<plan::SplitRequest> split_request(const ModelRequest& request,
                                         const show::ModelReport& report) {
  plan::SplitRequest split;
  const size_t count = report.cards.size();
  if (count < 2 && request.split.value_or(plan::Split::kNone) != plan::Split::kNone)
    return fail(Code::kBadInput, "--split {} needs several cards, as in --gpu 2x24GiB",
                show::word_for(show::kSplits, *request.split));
  if (count > 1 && request.split == plan::Split::kNone)
    return fail(Code::kBadInput, "--split none applies to one card, found {}", count);
  const bool maps_layers =
      report.task.use == plan::Use::kInfer || request.emit == show::EmitFormat::kDeviceMap;
  const plan::Split usual = maps_layers ? plan::Split::kDeviceMap : plan::Split::kShard;
  split.split = count < 2 ? plan::Split::kNone : request.split.value_or(usual);
  split.cards = report.cards;
  // Without a card, any batch fits.
  if (count == 0) split.cards.push_back({"", std::numeric_limits<uint64_t>::max()});
  split.has_given_batch = request.batch.has_value() || count == 0;
  if (request.emit == show::EmitFormat::kFsdp) split.least = plan::Sharding::kGradients;
  return split;
}

// The plan, or the file for another tool; with -o the file goes there, and the plan to the screen.
Result<> print(const PlanRequest& request, const show::ModelReport& report, Console& console) {
  const Output screen;
  const auto plan_text = [&](const Output& output) {
    return request.json ? show::model_json(report)
                        : show::draw_model(report, text_options(output, console));
  };
  if (!request.model.emit) return deliver(plan_text(request.output), request.output, console);
  VRAM_TRY_ASSIGN(const auto emitted, show::emit(*request.model.emit, report));
  VRAM_TRY(deliver_as_it_is(emitted, request.output, console));
  return request.output.path.empty() ? Result<>() : deliver(plan_text(screen), screen, console);
}

}  // namespace

std::vector<Option> model_options(ModelRequest& request) {
  return {
      {"--model", "FILE", tr("a model's config.json of Hugging Face, instead of INPUT"),
       file(&request.config)},
      {"--use", "USE", tr("of a model: train (all weights), lora, or infer (default: train)"),
       choice(request.use, words_of(show::kUses))},
      {"--batch", "N",
       tr("of a model: sequences at once on a card (default: as many as fit on the card of --gpu)"),
       value(request.batch, from_one_to(plan::kMaxTokens))},
      {"--sequence", "N",
       tr("of a model: tokens of a sequence; for infer with those that are generated (default: "
          "what "
          "the model allows, at most 4096)"),
       value(request.sequence, from_one_to(plan::kMaxTokens))},
      {"--precision", "NAME",
       tr("of a model: fp32; bf16 (fp16 too); autocast, with fp32 weights; mixed, with bf16 "
          "weights "
          "and fp32 ones in the optimizer, as of DeepSpeed (default: mixed; bf16 for lora and "
          "infer)"),
       choice(request.precision, words_of(show::kPrecisions))},
      {"--quantize", "NAME",
       tr("of a model: the weights that are not trained, as bitsandbytes stores them"),
       choice(request.quantization, words_of(show::kQuantizations))},
      {"--optimizer", "NAME", tr("of a model: what changes its weights (default: adamw)"),
       choice(request.optimizer, words_of(show::kOptimizers))},
      {"--checkpoint", "",
       tr("of a model: each layer keeps its input only, and runs again in backward"),
       &request.checkpoints},
      {"--accumulate", "", tr("of a model: gradients of several batches are added up"),
       &request.accumulates},
      {"--rank", "N", tr("of a model: the rank of LoRA's adapters (default: 16)"),
       value(request.rank, from_one_to(kMaxRank))},
      {"--targets", "NAME",
       tr("of a model: which linear layers get adapters (default: linear, all of a layer)"),
       choice(request.targets, words_of(show::kTargets))},
      {"--kv-dtype", "NAME",
       tr("of a model: the type of the KV cache (default: that of the computation)"),
       choice(request.cached_bytes, Words<uint64_t>{{"fp32", 4}, {"bf16", 2}, {"fp8", 1}})},
      {"--split", "HOW",
       tr("of a model, on several cards: shard (data parallelism, the least of ZeRO's stages that "
          "fits), tensor, device-map (layers, one card after the other), or pipeline (default: "
          "shard; "
          "device-map for infer)"),
       choice(request.split, words_of(show::kSplits))},
      {"--emit", "FORMAT",
       tr("of a model: write what other tools read, instead of the plan; with -o both: "
          "hf-device-map, "
          "accelerate, deepspeed or fsdp"),
       choice(request.emit, words_of(show::kEmitFormats))}};
}

std::string_view given_model_option(const ModelRequest& request) {
  const std::array kGiven = {std::pair("--use", request.use.has_value()),
                             std::pair("--batch", request.batch.has_value()),
                             std::pair("--sequence", request.sequence.has_value()),
                             std::pair("--precision", request.precision.has_value()),
                             std::pair("--quantize", request.quantization.has_value()),
                             std::pair("--optimizer", request.optimizer.has_value()),
                             std::pair("--checkpoint", request.checkpoints),
                             std::pair("--accumulate", request.accumulates),
                             std::pair("--rank", request.rank.has_value()),
                             std::pair("--targets", request.targets.has_value()),
                             std::pair("--kv-dtype", request.cached_bytes.has_value()),
                             std::pair("--split", request.split.has_value()),
                             std::pair("--emit", request.emit.has_value())};
  const auto* const found =
      std::ranges::find_if(kGiven, [](const auto& each) { return each.second; });
  return found == kGiven.end() ? "" : found->first;
}

Result<Cards> parse_cards(std::string_view text) {
  Cards cards;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const auto [count, name] = counted_card(one);
    VRAM_TRY_ASSIGN(const CardMemory card, find_card(name));
    if (count == 0 || count > plan::kMaxCards - cards.list.size())
      return fail(Code::kBadInput, "expected 1 to {} cards, found '{}'", plan::kMaxCards, one);
    cards.list.insert(cards.list.end(), count, card);
  }
  if (cards.list.empty()) return fail(Code::kBadInput, "expected a card, as in 24GiB");
  return cards;
}

Result<int> plan_model(const PlanRequest& request, std::string_view text, Console& console) {
  show::ModelReport report;
  report.path = request.input;
  VRAM_TRY_ASSIGN(report.model, plan::parse_model(text));
  report.task = task_of(request.model, report.model);
  VRAM_TRY(check_use(request.model, report.task.use));
  VRAM_TRY(check(report.model, report.task));
  report.cards = cards_of(request);
  VRAM_TRY_ASSIGN(const auto split, split_request(request.model, report));
  const auto planned = plan::plan_split(report.model, report.task, split);
  if (!planned && planned.error().code == Code::kTooLarge) {
    console.error(fmt::format("{}: {}", request.input, planned.error().message));
    return kFailed;
  }
  if (!planned) return tl::unexpected(planned.error());
  report.split = *planned;
  report.task.batch = planned->batch;
  VRAM_TRY(print(request, report, console));
  const bool has_page = !request.model.emit || !request.output.path.empty();
  if (!has_page && !report.cards.empty() && !report.split.fits) {
    console.error(trf("{}: this plan does not fit: the fullest card needs {} of {}", request.input,
                      format_bytes(report.fullest().estimate.peak_bytes()),
                      format_bytes(report.cards[report.fullest().card].budget_bytes)));
  }
  return report.cards.empty() || report.split.fits ? 0 : kFailed;
}

}  // namespace vram::cli
