// vram status: who uses which GPU's memory, now; once, or again and again.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "cli/live.hpp"
#include "cli/output.hpp"
#include "cli/signals.hpp"
#include "show/live/status_detail.hpp"
#include "show/live/status_export.hpp"
#include "show/live/status_fields.hpp"
#include "show/live/status_text.hpp"
#include "show/metrics/metrics.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <optional>
#include <unistd.h>
#include <utility>

namespace vram::cli {
namespace {

class StatusCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<> check() const;
  [[nodiscard]] Result<> check_prometheus() const;
  [[nodiscard]] Result<> check_fields() const;
  // One screen for a sample, which the next may replace.
  [[nodiscard]] bool is_screen() const { return !json_ && !csv_ && !prometheus_ && !fields_; }
  // The screens and JSON contain the notes of the sample.
  [[nodiscard]] bool has_notes() const { return !csv_ && !prometheus_ && !fields_; }
  [[nodiscard]] Result<> choose_fields(const std::string& list);
  [[nodiscard]] std::string drawn(const watch::Snapshot& snapshot, const Console& console);
  [[nodiscard]] std::string drawn_fields(const watch::Snapshot& snapshot, const Console& console);
  void warn_of_new_notes(const watch::Snapshot& snapshot, const Console& console);
  [[nodiscard]] Result<int> once(Live& live, Console& console);
  [[nodiscard]] Result<int> again_and_again(Live& live, std::chrono::nanoseconds period,
                                            Console& console);
  [[nodiscard]] Result<> tick(Live& live, Repaint& repaint, Console& console);

  bool json_ = false;
  bool csv_ = false;
  bool prometheus_ = false;
  bool query_ = false;
  std::optional<std::chrono::nanoseconds> watch_;
  LiveSource gpu_;
  show::MetricsOptions metrics_;
  bool has_head_ = false;  // of the CSV, which begins with it once
  bool lists_fields_ = false;
  std::optional<std::vector<const show::Field*>> fields_;
  std::optional<show::FieldTable> table_;
  std::vector<std::string> omitted_;  // that a warning has named
  std::vector<std::string> notes_;    // likewise
};

const Manual& StatusCommand::manual() const {
  static const Manual kManual = {
      "status",
      tr("show GPU memory and the processes that use it"),
      "[--json|--csv|--prometheus] [-q] [--fields NAMES] [--watch SECONDS]",
      tr("Shows each GPU with its memory (used by programs, reserved by the driver, free), load, "
         "temperature and power, and the processes that use it: their user, container, pod or "
         "Slurm "
         "job, and, if they publish a status page, how much memory their allocator uses and could "
         "release. Memory that belongs to no known process is shown as unattributed. Unknown "
         "values "
         "are shown as -, never as 0."),
      {{"vram status", "once"},
       {"vram status --watch 1", tr("every second, until Ctrl-C")},
       {"vram status -q", tr("everything that is known, untruncated")},
       {"vram status --fields time,used,busy,bar1 --watch 1", tr("a line for each GPU and second")},
       {"vram status --fields pid,process.used,command", tr("a line for each process")},
       {"vram status --json | jq '.devices[].memory.used_bytes'", tr("for programs")},
       {"vram status --csv --watch 10 > memory.csv", tr("a table over time")},
       {"vram status --prometheus > vram.prom", tr("a page of metrics (docs/metrics.md)")},
       {"vram status --gpu sim --watch 1", tr("no GPU: plays a recording that comes with vram")},
       {"vram status --gpu sim:run.vtrace --watch 1", tr("plays a recording in a loop")}}};
  return kManual;
}

std::vector<Option> StatusCommand::options() {
  return {
      {"--json", "", tr("print vram.status/1 (docs/json.md)"), for_programs(&json_)},
      {"--csv", "", tr("print a row for each process on each GPU"), for_programs(&csv_)},
      {"--prometheus", "",
       tr("print the metrics of vram serve (docs/metrics.md) once, for node_exporter's textfile "
          "collector"),
       for_programs(&prometheus_)},
      {"--dcgm-names", "", tr("with --prometheus: also use dcgm-exporter's names"),
       &metrics_.dcgm_names},
      {"--process-series", "N",
       tr("with --prometheus: series of the N processes with the most memory (none)"),
       value(metrics_.process_series, parse_number<uint32_t>)},
      {"--fields",
       "NAMES",
       tr("print a line for each GPU with these figures, for example used,free,busy,bar1; with "
          "--csv: these columns; `list` lists all names"),
       {Count::kOne,
        [this](std::string_view, const std::string& text) { return choose_fields(text); }}},
      {"-q,--query", "", tr("print everything that is known, one value a line"), &query_},
      {"--watch", "SECONDS",
       tr("repeat with this period, in place on a terminal; Ctrl-C stops it; SIGUSR1 releases the "
          "driver for 30 s"),
       value(watch_, parse_period)},
      source_option(
          tr("which source to read: nvml (NVIDIA), drm (AMD, Intel), or sim[:RECORDING], which "
             "plays a recording (default: one that is installed with vram); default: all sources "
             "of the machine"),
          gpu_)};
}

Result<> StatusCommand::check() const {
  if (json_ && csv_)
    return fail(Code::kBadInput, "--json and --csv exclude each other: use one of them");
  if (fields_) VRAM_TRY(check_fields());
  if (prometheus_) return check_prometheus();
  if (metrics_.dcgm_names || metrics_.process_series)
    return fail(Code::kBadInput, "{} requires --prometheus",
                metrics_.dcgm_names ? "--dcgm-names" : "--process-series");
  if (query_ && (json_ || csv_))
    return fail(Code::kBadInput, "-q and {0} exclude each other: {0} prints everything already",
                json_ ? "--json" : "--csv");
  return {};
}

Result<> StatusCommand::check_fields() const {
  if (!json_ && !prometheus_ && !query_) return {};
  return fail(Code::kBadInput,
              "--fields and {0} exclude each other: leave {0} out, or use --csv for programs",
              json_         ? "--json"
              : prometheus_ ? "--prometheus"
                            : "-q");
}

Result<> StatusCommand::choose_fields(const std::string& list) {
  lists_fields_ = list == "list";
  if (lists_fields_) return {};
  auto chosen = show::choose_fields(list);
  if (!chosen) {
    chosen.error().message = fmt::format("--fields: {}", chosen.error().message);
    return tl::unexpected(std::move(chosen.error()));
  }
  fields_ = *std::move(chosen);
  table_.emplace(*fields_);
  return {};
}

Result<> StatusCommand::check_prometheus() const {
  if (json_ || csv_ || query_)
    return fail(Code::kBadInput, "--prometheus and {} exclude each other: use one of them",
                json_  ? "--json"
                : csv_ ? "--csv"
                       : "-q");
  if (watch_)
    return fail(
        Code::kBadInput,
        "--prometheus and --watch exclude each other: leave --watch out, or use `vram serve`");
  return {};
}

std::string StatusCommand::drawn(const watch::Snapshot& snapshot, const Console& console) {
  if (json_) return show::status_json(snapshot);
  if (prometheus_)
    return show::metrics_text({.snapshot = snapshot}, {.version = VRAM_VERSION}, metrics_);
  if (fields_) return drawn_fields(snapshot, console);
  if (csv_) {
    const std::string head = std::exchange(has_head_, true) ? "" : show::status_csv_head();
    return head + show::status_csv(snapshot);
  }
  const show::TextOptions options = text_options({}, console);
  return query_ ? show::draw_status_detail(snapshot, options)
                : show::draw_status(snapshot, options);
}

std::string StatusCommand::drawn_fields(const watch::Snapshot& snapshot, const Console& console) {
  if (csv_) {
    const std::string head = std::exchange(has_head_, true) ? "" : show::fields_csv_head(*fields_);
    return head + show::fields_csv(*fields_, snapshot);
  }
  constexpr int kLinesBesidesRows = 3;  // the header, and the line of the cursor
  show::FieldTable::Shape shape{.unicode = console.unicode()};
  if (console.can_redraw()) {
    shape.columns = console.columns();
    shape.rows_between_headers = console.rows() - kLinesBesidesRows;
  }
  std::string text = table_->next(snapshot, shape);
  const std::vector<std::string> omitted = table_->omitted();
  if (omitted_ != omitted && !omitted.empty())
    console.warning(
        trf("no room in {} columns for {}: choose fewer fields, widen the terminal, or write to a "
            "file",
            console.columns(), fmt::join(omitted, ", ")));
  omitted_ = omitted;
  return text;
}

// Once for each text, since a source that fails says so in each sample.
void StatusCommand::warn_of_new_notes(const watch::Snapshot& snapshot, const Console& console) {
  if (has_notes()) return;
  for (const std::string& note : snapshot.notes)
    if (std::ranges::count(notes_, note) == 0) console.warning(note);
  notes_ = snapshot.notes;
}

Result<int> StatusCommand::once(Live& live, Console& console) {
  const watch::Snapshot snapshot = live.take_sample();
  warn_of_new_notes(snapshot, console);
  VRAM_TRY(console.print(drawn(snapshot, console)));
  return snapshot.devices.empty() ? kEnvironment : 0;
}

// A sample may wait for the driver for long, so the end is not left to the loop. Screens end with
// plain colours and the cursor below them; only one that is being written might not.
extern "C" void end_watching(int) {
  constexpr std::string_view kPlain = "\x1b[0m\n";
  if (isatty(STDOUT_FILENO) == 1) (void)!write(STDOUT_FILENO, kPlain.data(), kPlain.size());
  _exit(0);
}

Result<> StatusCommand::tick(Live& live, Repaint& repaint, Console& console) {
  const watch::Snapshot snapshot = live.take_sample();
  console.measure();
  const std::string text = drawn(snapshot, console);
  warn_of_new_notes(snapshot, console);
  const bool redraws = console.can_redraw() && is_screen();
  return console.print(redraws ? repaint.next(text, console.rows(), console.columns()) : text);
}

Result<int> StatusCommand::again_and_again(Live& live, std::chrono::nanoseconds period,
                                           Console& console) {
  using Clock = std::chrono::steady_clock;
  std::signal(SIGINT, end_watching);
  std::signal(SIGTERM, end_watching);
  const ReleaseRequests requests;
  Repaint repaint;
  auto next = Clock::now();
  while (!console.output_is_closed()) {
    VRAM_TRY(tick(live, repaint, console));
    next += period;
    if (const auto now = Clock::now(); next < now)
      next = now;  // what was missed is not made up for
    while (requests.wait_until(next)) live.release();
  }
  return 0;
}

Result<int> StatusCommand::run(Console& console) {
  VRAM_TRY(check());
  if (lists_fields_) {
    VRAM_TRY(console.print(show::draw_field_list(text_options({}, console))));
    return 0;
  }
  VRAM_TRY_ASSIGN(auto live, Live::of(gpu_));
  return watch_ ? again_and_again(live, *watch_, console) : once(live, console);
}

}  // namespace

std::unique_ptr<Command> status_command() { return std::make_unique<StatusCommand>(); }

}  // namespace vram::cli
