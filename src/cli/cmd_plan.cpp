// vram plan: what to keep, to recompute and to offload so that a training step fits a budget.
#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/recorded_program.hpp"
#include "cli/recordings.hpp"
#include "plan/chain.hpp"
#include "plan/chain_of.hpp"
#include "plan/plan.hpp"
#include "show/plan/plan.hpp"
#include "trace/open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace vram::cli {
namespace {

// What `vram plan` is asked.
struct PlanRequest {
  std::string input;
  std::optional<uint64_t> budget_bytes;
  std::optional<CardMemory> gpu;
  std::string stages;  // a pattern of modules' names; empty: the longest repeated list
  bool json = false;
  Output output;
  trace::OpenOptions reading;
};

// The bytes that a plan may use: --budget, or what a card leaves to an allocator. None if neither
// was given.
Result<std::optional<uint64_t>> budget_of(const PlanRequest& request) {
  if (!request.gpu) return request.budget_bytes;
  if (request.budget_bytes)
    return fail(Code::kBadInput, "--gpu and --budget exclude each other: use one of them");
  return request.gpu->allocator_bytes();
}

constexpr size_t kSweptBudgets = 9;
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
      "choose what a training step recomputes so that it fits into less memory",
      "INPUT [OPTIONS]",
      "Finds which activations of a training step to keep, to recompute and to offload, so that "
      "the step fits into a budget and takes the least time. Without a budget, lists what several "
      "budgets cost. Exits with 1 if nothing fits, and names the smallest budget that suffices.",
      {{"vram plan step.vtrace", "what each budget costs in time"},
       {"vram plan step.vtrace --budget 20GiB", "what to recompute to need at most 20 GiB"},
       {"vram plan chain.json --gpu \"RTX 4090\"", "on this GPU"},
       {"vram plan step.vtrace --budget 20GiB --json", "for programs"}}};
  return kManual;
}

std::vector<Option> PlanCommand::options() {
  return {{"INPUT", "INPUT",
           "the trace of a dry run, a recording with vram.watch(), or a chain (vram.chain/1)",
           file(&request_.input)},
          {"--budget", "SIZE", "the requested bytes that the step may need: 20GiB",
           value(request_.budget_bytes, parse_size)},
          {"--gpu", "CARD",
           "use a card's memory instead of --budget, less what the CUDA context needs: a name "
           "(\"RTX 4090\") or a size (24GiB); optimistic, since an allocator reserves more than is "
           "requested",
           value(request_.gpu, find_card)},
          {"--stages", "PATTERN",
           "the modules to choose between, of a trace: names in which * stands for any text "
           "without a dot, such as \"model.layers.*\" (default: the longest list of modules)",
           &request_.stages},
          {"--json", "", "print vram.plan/1, or vram.plan_sweep/1 without a budget (docs/json.md)",
           &request_.json},
          output_option(request_.output),
          force_option(request_.output),
          max_size_option(request_.reading)};
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
  if (!request.gpu) return {};
  const CardMemory& gpu = *request.gpu;
  return fmt::format("{}: {} for programs ({}) minus {} for the CUDA context", gpu.name,
                     format_bytes(gpu.program_bytes), gpu.source, format_bytes(gpu.context_bytes));
}

Result<std::string> sweep_text(const PlanRequest& request, const show::PlanSubject& subject,
                               const Console& console) {
  VRAM_TRY_ASSIGN(const auto plans, plan::sweep(subject.chain, kSweptBudgets));
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

Result<int> plan_document(const PlanRequest& request, Console& console) {
  VRAM_TRY_ASSIGN(const auto text, read_whole(request.input, kMaxDocumentBytes));
  const Json document = Json::parse(text, nullptr, false);
  const bool is_chain = document.is_object() && document.contains("schema");
  const bool is_model = document.is_object() && document.contains("model_type");
  if (!is_chain && is_model) {
    return fail(Code::kUnsupported,
                "{}: expected a trace or a chain, found the config.json of a model, which is not "
                "supported; run one step with python -m vram.dry, and plan its trace",
                request.input);
  }
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
  VRAM_TRY_ASSIGN(const auto trace, open_with_progress(request.input, request.reading, console));
  auto found = plan::chain_of(trace, {request.stages});
  if (!found) return in_file(request.input, found.error());
  return plan_subject(
      request, {.chain = std::move(found->chain), .recorded = std::move(found->step)}, console);
}

Result<int> PlanCommand::run(Console& console) {
  VRAM_TRY(check_output(request_.output));
  VRAM_TRY(budget_of(request_));
  VRAM_TRY_ASSIGN(const auto kind, kind_of(request_.input));
  return kind == InputKind::kDocument ? plan_document(request_, console)
                                      : plan_recording(request_, console);
}

}  // namespace

std::unique_ptr<Command> plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace vram::cli
