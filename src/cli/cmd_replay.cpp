// vram replay: what would have happened with another allocator, other settings or less memory.
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/recorded_program.hpp"
#include "cli/recordings.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/curve.hpp"
#include "explain/site/scopes.hpp"
#include "explain/steps/steps.hpp"
#include "replay/replay.hpp"
#include "show/names.hpp"
#include "show/replay/replay_json.hpp"
#include "show/replay/replay_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vram::cli {
namespace {

using replay::AllocatorSpec;

class ReplayCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<> replay_all(const trace::Trace& trace, const RecordedProgram& recorded,
                                    replay::ReplayOptions options, const Console& console,
                                    show::ReplayReport& report) const;

  std::string trace_;
  std::vector<AllocatorSpec> allocators_;
  CapacityOptions capacity_;
  int64_t lag_ns_ = replay::ReplayOptions{}.lag_ns;
  bool min_capacity_ = false;
  bool json_ = false;
  std::optional<uint32_t> device_;
  Output output_;
  trace::OpenOptions reading_;
};

const Manual& ReplayCommand::manual() const {
  static const Manual kManual = {
      "replay",
      tr("simulate a recorded program with another allocator, other settings or less memory"),
      "TRACE [OPTIONS]",
      tr("Runs the recorded program's allocations and frees against an allocator on a simulated "
         "GPU, "
         "and reports what it would reserve, whether it would run out of memory, and which driver "
         "calls it would make. Without --allocator: compares the recorded settings with expandable "
         "segments. Running out of memory is a result, not an error."),
      {{"vram replay run.pickle", tr("would expandable segments help?")},
       {"vram replay run.pickle --gpu \"RTX 4090\"", tr("would it run on another GPU?")},
       {"vram replay run.pickle --allocator torch:max_split_size_mb=128",
        tr("would this setting help?")},
       {"vram replay run.pickle --allocator torch --min-capacity",
        tr("the smallest sufficient GPU")}},
      {tr("Allocators, each with settings after a colon"), replay::known_allocators()}};
  return kManual;
}

std::vector<Option> ReplayCommand::options() {
  std::vector<Option> options = {
      {"TRACE", "TRACE", tr("a recording; - is standard input"), file(&trace_)},
      {"--allocator", "SPEC",
       tr("NAME or NAME:key=value,key=value, as in PYTORCH_CUDA_ALLOC_CONF; repeat it to compare "
          "several"),
       value(allocators_, replay::parse_spec)},
      {"--min-capacity", "",
       tr("also find the smallest sufficient capacity, and the retries with it"), &min_capacity_},
      lag_option(lag_ns_),
      replayed_device_option(device_),
      {"--json", "", tr("print vram.replay/1 (docs/json.md)"), for_programs(&json_)},
      output_option(output_),
      force_option(output_),
      max_size_option(reading_)};
  const std::vector<Option> capacity = capacity_options(capacity_);
  options.insert(options.begin() + 2, capacity.begin(), capacity.end());
  return options;
}

// The answer to the usual question.
std::vector<AllocatorSpec> default_specs(const AllocatorSpec& recorded) {
  std::vector<AllocatorSpec> specs = {recorded};
  const auto expandable = replay::parse_spec(replay::kExpandableSpec);
  if (expandable && expandable->to_string() != recorded.to_string()) specs.push_back(*expandable);
  return specs;
}

bool runs_out(const show::ReplayReport& report) {
  return report.recorded.result.oom.has_value() ||
         std::ranges::any_of(report.results, [](const show::Replayed& each) {
           return each.result.oom.has_value();
         });
}

// Which step of the recording it was. Steps cost a pass over the recording: only where they tell.
void name_oom_steps(const trace::Trace& trace, const trace::DeviceTrace& device,
                    const Console& console, show::ReplayReport& report) {
  if (!runs_out(report)) return;
  Progress progress(console, tr("finding steps"));
  progress.announce(device.event_count);
  const explain::History history = explain::replay_history(trace, device);
  const int64_t origin_ns = explain::EventClock(trace, device).origin_unix_ns();
  const explain::Steps steps =
      explain::find_steps(trace, device, history, explain::build_scopes(trace, device), origin_ns);
  const auto name = [&](show::Replayed& replayed) {
    if (replayed.result.oom) replayed.oom_step = show::step_of(steps, replayed.result.oom->event);
  };
  name(report.recorded);
  for (show::Replayed& replayed : report.results) name(replayed);
}

Result<> ReplayCommand::replay_all(const trace::Trace& trace, const RecordedProgram& recorded,
                                   replay::ReplayOptions options, const Console& console,
                                   show::ReplayReport& report) const {
  const auto replayed = [&](const AllocatorSpec& spec) -> Result<show::Replayed> {
    Progress progress(console, tr("replaying ") + spec.to_string());
    progress.announce(report.events);
    VRAM_TRY_ASSIGN(auto result, replay::replay(recorded.program, spec, options));
    return show::Replayed{.result = std::move(result), .is_recorded = false, .oom_step = {}};
  };
  const AllocatorSpec own = replay::recorded_spec(trace);
  options.search_min_capacity = report.searched_min_capacity;
  for (const AllocatorSpec& spec : allocators_.empty() ? default_specs(own) : allocators_) {
    VRAM_TRY_ASSIGN(auto each, replayed(spec));
    each.is_recorded = spec.to_string() == own.to_string();
    report.results.push_back(std::move(each));
  }
  const auto same = std::ranges::find(report.results, true, &show::Replayed::is_recorded);
  options.search_min_capacity = false;
  VRAM_TRY_ASSIGN(auto reference,
                  same != report.results.end() ? Result<show::Replayed>(*same) : replayed(own));
  report.recorded = std::move(reference);
  report.recorded.is_recorded = true;
  name_oom_steps(trace, *recorded.device, console, report);
  return {};
}

Result<int> ReplayCommand::run(Console& console) {
  VRAM_TRY(check_output(output_, {trace_}));
  VRAM_TRY_ASSIGN(const auto trace, open_with_progress(trace_, reading_, console));
  VRAM_TRY_ASSIGN(const auto recorded, recorded_program(trace, device_, console));
  VRAM_TRY_ASSIGN(const auto capacity, capacity_for(recorded, capacity_));
  replay::ReplayOptions options;
  options.capacity_bytes = capacity.bytes;
  options.capacity_is_fraction = capacity.is_fraction;
  options.lag_ns = lag_ns_;
  show::ReplayReport report;
  fill_subject(trace, recorded, capacity, report);
  report.lag_ns = lag_ns_;
  report.searched_min_capacity = min_capacity_;
  VRAM_TRY(replay_all(trace, recorded, options, console, report));
  const std::string text =
      json_ ? show::replay_json(report) : show::draw_replay(report, text_options(output_, console));
  return deliver(text, output_, console).map([] { return 0; });
}

}  // namespace

std::unique_ptr<Command> replay_command() { return std::make_unique<ReplayCommand>(); }

}  // namespace vram::cli
