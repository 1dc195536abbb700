// vram plan: what to keep, to recompute and to offload so that a training step fits a budget; and
// what a model of a config.json needs.
#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/plan_model.hpp"
#include "cli/recordings.hpp"
#include "plan/chain_of.hpp"
#include "plan/plan.hpp"
#include "show/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

namespace vram::cli {
namespace {

constexpr uint64_t kMaxDocumentBytes = uint64_t{256} << 20;

class PlanCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  PlanRequest request_;
};

const Manual& PlanCommand::manual() const {
  static const Manual kManual = {
      "plan",
      tr("choose what a training step recomputes so that it fits into less memory"),
      "[INPUT] [OPTIONS]",
      tr("Finds which activations of a training step to keep, to recompute and to offload, so that "
         "the step fits into a budget and takes the least time. Without a budget, lists what "
         "several "
         "budgets cost. Exits with 1 if nothing fits, and names the smallest budget that suffices. "
         "Of "
         "a model's config.json, estimates the memory of training, LoRA or inference, and the "
         "largest "
         "batch that fits."),
      {{"vram plan step.vtrace", tr("what each budget costs in time")},
       {"vram plan step.vtrace --budget 20GiB", tr("what to recompute to need at most 20 GiB")},
       {"vram plan chain.json --gpu \"RTX 4090\"", tr("on this GPU")},
       {"vram plan step.vtrace --budget 20GiB --json", tr("for programs")},
       {"vram plan --model config.json --use lora --gpu \"RTX 4090\"",
        tr("what LoRA of a model needs on this GPU")}}};
  return kManual;
}

std::vector<Option> PlanCommand::options() {
  std::vector<Option> options = {
      {"INPUT", "INPUT",
       tr("the trace of a dry run, a recording with vram.watch(), a chain (vram.chain/1), or the "
          "config.json of a model; - is standard input, with a trace"),
       file(&request_.input), true},
      {"--budget", "SIZE", tr("the requested bytes that the step may need: 20GiB"),
       value(request_.budget_bytes, parse_size)},
      {"--gpu", "CARD",
       tr("use a card's memory instead of --budget, less what the CUDA context needs: a name "
          "(\"RTX 4090\") or a size (24GiB); optimistic, since an allocator reserves more than is "
          "requested"),
       value(request_.gpus, parse_cards)},
      {"--stages", "PATTERN",
       tr("the modules to choose between, of a trace: names in which * stands for any text "
          "without a dot, such as \"model.layers.*\" (default: the longest list of modules)"),
       &request_.stages},
      {"--json", "",
       tr("print vram.plan/1, vram.plan_sweep/1 without a budget, or vram.model_plan/1 of a model "
          "(docs/json.md)"),
       for_programs(&request_.json)},
      output_option(request_.output),
      force_option(request_.output),
      max_size_option(request_.reading)};
  std::ranges::move(model_options(request_.model), std::back_inserter(options));
  return options;
}

enum class InputKind : uint8_t { kDocument, kRecording };

// JSON begins with a brace; so does a recording that was exported as JSON lines.
Result<InputKind> kind_of(const std::string& path) {
  if (path == "-") return InputKind::kRecording;
  VRAM_TRY_ASSIGN(const auto file, InputFile::open(path));
  if (file.size_bytes() == 0) return InputKind::kRecording;  // a pipe cannot be read twice
  std::array<char, 64> bytes = {};
  VRAM_TRY_ASSIGN(const auto count, file.read_at(0, std::as_writable_bytes(std::span(bytes))));
  std::string_view head(bytes.data(), count);
  if (head.starts_with(kJsonLinesStart)) return InputKind::kRecording;
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  return head.starts_with('{') ? InputKind::kDocument : InputKind::kRecording;
}

tl::unexpected<Error> in_file(const std::string& path, const Error& error) {
  return fail(error.code, "{}: {}", path, error.message);
}

std::string card_of(const PlanRequest& request) {
  if (request.gpus.list.empty()) return {};
  const CardMemory& gpu = request.gpus.list.front();
  return trf("{}: {} for programs ({}) minus {} for the CUDA context", gpu.name,
             format_bytes(gpu.program_bytes), gpu.source, format_bytes(gpu.context_bytes));
}

Result<std::string> sweep_text(const PlanRequest& request, const show::PlanSubject& subject,
                               const Console& console) {
  VRAM_TRY_ASSIGN(const auto plans, plan::sweep(subject.chain, plan::kSweptBudgets));
  return request.json ? show::sweep_json(subject, plans)
                      : show::draw_sweep(subject, plans, text_options(request.output, console));
}

// kTooLarge: no schedule fits.
Result<std::string> plan_text(const PlanRequest& request, const show::PlanSubject& subject,
                              uint64_t budget_bytes, const Console& console) {
  const uint64_t rest_bytes = subject.recorded ? subject.recorded->rest_peak_bytes : 0;
  if (rest_bytes > budget_bytes && plan::make_plan(subject.chain, rest_bytes)) {
    return fail(Code::kTooLarge,
                "the smallest budget is {} ({} bytes), which the program needs outside of forward "
                "and backward (the optimizer's step); the budget is {}",
                format_bytes(rest_bytes), rest_bytes, format_bytes(budget_bytes));
  }
  VRAM_TRY_ASSIGN(const auto plan, plan::make_plan(subject.chain, budget_bytes));
  return request.json ? show::plan_json(subject, plan)
                      : show::draw_plan(subject, plan, text_options(request.output, console));
}

Result<int> plan_subject(const PlanRequest& request, show::PlanSubject subject, Console& console) {
  subject.path = request.input;
  subject.card = card_of(request);
  VRAM_TRY_ASSIGN(const auto budget, budget_of(request));
  const auto text = budget ? plan_text(request, subject, *budget, console)
                           : sweep_text(request, subject, console);
  if (text) return deliver(*text, request.output, console).map([] { return 0; });
  if (!budget || text.error().code != Code::kTooLarge) return in_file(request.input, text.error());
  console.error(fmt::format("{}: {}", request.input, text.error().message));
  return kFailed;
}

// Kinds of input other than a model.
Result<> check_no_model_option(const PlanRequest& request) {
  const std::string_view given = given_model_option(request.model);
  if (given.empty()) return {};
  return fail(Code::kBadInput, "{}: {} applies to the config.json of a model, not to a step",
              request.input, given);
}

Result<int> plan_document(const PlanRequest& request, Console& console) {
  VRAM_TRY_ASSIGN(const auto text, read_whole(request.input, kMaxDocumentBytes));
  const Json document = Json::parse(text, nullptr, false);
  const bool is_chain = document.is_object() && document.contains("schema");
  const bool is_model = document.is_object() && document.contains("model_type");
  if (!is_chain && (is_model || !request.model.config.empty())) {
    if (!request.stages.empty())
      return fail(Code::kBadInput, "{}: --stages applies to a trace, not to a model",
                  request.input);
    const auto exit_code = plan_model(request, text, console);
    return exit_code ? exit_code : Result<int>(in_file(request.input, exit_code.error()));
  }
  VRAM_TRY(check_no_model_option(request));
  if (!is_chain && !document.is_discarded()) {
    return fail(Code::kBadInput,
                "{}: expected a chain (\"schema\": \"vram.chain/1\"), found JSON without a schema",
                request.input);
  }
  if (!request.stages.empty()) {
    return fail(Code::kBadInput,
                "{}: expected a trace, to which --stages applies, found a chain, whose stages are "
                "given; leave out --stages",
                request.input);
  }
  const auto chain = plan::parse_chain(text);
  if (!chain) return in_file(request.input, chain.error());
  return plan_subject(request, {.chain = *chain}, console);
}

Result<int> plan_recording(const PlanRequest& request, Console& console) {
  VRAM_TRY(check_no_model_option(request));
  VRAM_TRY_ASSIGN(const auto trace, open_with_progress(request.input, request.reading, console));
  auto found = plan::chain_of(trace, {request.stages});
  if (!found) return in_file(request.input, found.error());
  return plan_subject(
      request, {.chain = std::move(found->chain), .recorded = std::move(found->step)}, console);
}

Result<int> PlanCommand::run(Console& console) {
  VRAM_TRY(check_output(request_.output, {request_.input, request_.model.config}));
  if (request_.budget_bytes && !request_.gpus.list.empty())
    return fail(Code::kBadInput, "--gpu and --budget exclude each other: use one of them");
  if (request_.input.empty() == request_.model.config.empty())
    return fail(Code::kBadInput, "expected one input: a trace, a chain or --model config.json");
  if (request_.input.empty()) {
    request_.input = request_.model.config;
    return plan_document(request_, console);
  }
  VRAM_TRY_ASSIGN(const auto kind, kind_of(request_.input));
  return kind == InputKind::kDocument ? plan_document(request_, console)
                                      : plan_recording(request_, console);
}

}  // namespace

Result<std::optional<uint64_t>> budget_of(const PlanRequest& request) {
  const std::vector<CardMemory>& cards = request.gpus.list;
  if (cards.empty()) return request.budget_bytes;
  if (cards.size() > 1)
    return fail(Code::kBadInput,
                "--gpu: a step runs on one card, found {}; several cards apply to "
                "the config.json of a model",
                cards.size());
  return cards.front().allocator_bytes();
}

std::unique_ptr<Command> plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace vram::cli
