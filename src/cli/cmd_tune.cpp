// vram tune: the settings of PyTorch's allocator that serve a recorded program best.
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/recorded_program.hpp"
#include "cli/recordings.hpp"
#include "explain/explain.hpp"
#include "replay/tune/tune.hpp"
#include "show/replay/tune.hpp"

#include <algorithm>
#include <utility>

namespace vram::cli {
namespace {

constexpr uint64_t kMaxJobs = 1024;
constexpr size_t kDefaultTop = 10;

class TuneCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<show::TuneReport> tuned(const trace::Trace& trace,
                                               const Console& console) const;

  std::string trace_;
  CapacityOptions capacity_;
  int64_t lag_ns_ = replay::ReplayOptions{}.lag_ns;
  std::optional<uint32_t> device_;
  uint64_t jobs_ = 0;
  uint64_t top_ = kDefaultTop;
  bool json_ = false;
  Output output_;
  trace::OpenOptions reading_;
};

const Manual& TuneCommand::manual() const {
  static const Manual kManual = {
      "tune",
      tr("find the best settings of PyTorch's allocator for a recorded program"),
      "TRACE [OPTIONS]",
      tr("Replays the recorded program with many settings of PYTORCH_CUDA_ALLOC_CONF on a "
         "simulated "
         "GPU, and ranks them: first those with which the program completes, then by reserved "
         "memory, "
         "time in the driver, retries, and number of settings. Prints the line to export, with its "
         "gain and cost compared to the recorded settings. If no setting helps, says so and why."),
      {{"vram tune run.pickle", tr("what to export for the smallest peak")},
       {"vram tune run.pickle --gpu 16GiB", tr("what to export to make it run on such a GPU")},
       {"vram tune run.pickle --json | jq -r .conf", tr("the settings alone")}}};
  return kManual;
}

std::vector<Option> TuneCommand::options() {
  std::vector<Option> options = {
      {"TRACE", "TRACE", tr("a recording; - is standard input"), file(&trace_)},
      lag_option(lag_ns_),
      replayed_device_option(device_),
      {"--jobs", "N", tr("number of threads (0, the default: one for each core)"),
       value(jobs_, parse_number<>)},
      {"--top", "N", tr("settings to list, 0 for all (10); JSON has all of them"),
       value(top_, parse_number<>)},
      {"--json", "", tr("print vram.tune/1 (docs/json.md)"), for_programs(&json_)},
      output_option(output_),
      force_option(output_),
      max_size_option(reading_)};
  const std::vector<Option> capacity = capacity_options(capacity_);
  options.insert(options.begin() + 1, capacity.begin(), capacity.end());
  return options;
}

// What to make smaller, where no allocator can help.
Result<> name_holders(const trace::Trace& trace, const Console& console, show::TuneReport& report) {
  Progress progress(console, tr("explaining"));
  progress.announce(trace.events.size());
  explain::ExplainOptions options;
  options.device = report.device;
  VRAM_TRY_ASSIGN(const auto explained, explain::explain(trace, options));
  report.at_peak = explained.devices[explained.main_device].at_peak;
  report.has_stacks = explained.has_stacks;
  return {};
}

Result<show::TuneReport> TuneCommand::tuned(const trace::Trace& trace,
                                            const Console& console) const {
  const replay::AllocatorSpec own = replay::recorded_spec(trace);
  if (own.name != "torch") {
    return fail(Code::kUnsupported,
                "{}: expected a recording under PyTorch's own allocator, whose settings vram tune "
                "ranks, found one under {}; compare allocators with: vram replay {}",
                trace.origin.path, own.name, trace.origin.path);
  }
  VRAM_TRY_ASSIGN(const auto recorded, recorded_program(trace, device_, console));
  VRAM_TRY_ASSIGN(const auto capacity, capacity_for(recorded, capacity_));
  show::TuneReport report;
  fill_subject(trace, recorded, capacity, report);
  report.lag_ns = lag_ns_;
  Progress progress(console, tr("tuning"));
  progress.announce(report.events);
  report.result = replay::tune(
      recorded.program, own,
      {.capacity_bytes = capacity.bytes,
       .capacity_is_fraction = capacity.is_fraction,
       .jobs = static_cast<unsigned>(std::min(jobs_, kMaxJobs)),
       .progress = [&](size_t done,
                       size_t planned) { progress.update_count(done, planned, tr("replays")); },
       .lag_ns = lag_ns_});
  if (report.result.verdict == replay::TuneVerdict::kCannotFit) {
    VRAM_TRY(name_holders(trace, console, report));
  }
  return report;
}

Result<int> TuneCommand::run(Console& console) {
  VRAM_TRY(check_output(output_, {trace_}));
  VRAM_TRY_ASSIGN(const auto trace, open_with_progress(trace_, reading_, console));
  VRAM_TRY_ASSIGN(const auto report, tuned(trace, console));
  show::TextOptions options = text_options(output_, console);
  options.top = top_;
  const std::string text = json_ ? show::tune_json(report) : show::draw_tune(report, options);
  return deliver(text, output_, console).map([] { return 0; });
}

}  // namespace

std::unique_ptr<Command> tune_command() { return std::make_unique<TuneCommand>(); }

}  // namespace vram::cli
