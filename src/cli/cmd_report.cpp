// vram report: where the memory went.
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/browse_loop.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/page_server.hpp"
#include "cli/recordings.hpp"
#include "cli/report_page.hpp"
#include "cli/report_picture.hpp"
#include "explain/explain.hpp"
#include "explain/moment/state.hpp"
#include "show/draw/page.hpp"
#include "show/report/ranks.hpp"
#include "show/report/report_json.hpp"
#include "show/report/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace vram::cli {
namespace {

constexpr size_t kScreenLines = 50;

Error with_path(const std::string& path, Error error) {
  if (!error.message.starts_with(path)) error.message = path + ": " + error.message;
  return error;
}

// explain(), with the state of the main device at the moment of --at.
Result<explain::Report> explain_with_moment(const trace::Trace& trace,
                                            const explain::ExplainOptions& options,
                                            const std::optional<explain::MomentRequest>& at) {
  VRAM_TRY_ASSIGN(auto report, explain::explain(trace, options));
  if (!at) return report;
  auto state = explain::find_state(trace, report, report.main_device, *at);
  if (!state) return fail(state.error().code, "--at {}", state.error().message);
  report.devices[report.main_device].at = *std::move(state);
  return report;
}

class ReportCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<explain::Report> explained(const std::string& path,
                                                  const Console& console) const;
  [[nodiscard]] Result<std::string> one(const std::string& path, const Console& console) const;
  [[nodiscard]] std::string draw(const explain::Report& report, const Console& console) const;
  [[nodiscard]] std::string join(const std::vector<std::string>& documents) const;
  [[nodiscard]] Result<int> print_together(Console& console) const;
  [[nodiscard]] std::string draw_together(const std::vector<explain::Report>& reports,
                                          const Console& console) const;
  [[nodiscard]] Result<int> print_each(Console& console) const;
  [[nodiscard]] Result<int> write_all(Console& console) const;
  [[nodiscard]] Result<int> show_page(Console& console) const;
  [[nodiscard]] Result<int> draw_pictures(const Console& console) const;
  [[nodiscard]] Result<int> browse(const Console& console) const;

  [[nodiscard]] Output output_to(const std::string& path) const {
    return {.path = path, .is_forced = output_.is_forced, .can_be_forced = true};
  }

  std::vector<std::string> words_;
  std::vector<std::string> traces_;
  bool json_ = false;
  bool full_ = false;
  std::optional<size_t> top_;
  std::optional<explain::MomentRequest> at_;
  std::optional<uint32_t> device_;
  Output output_;
  std::string html_;
  bool serves_ = false;
  bool is_interactive_ = false;
  serve::Address address_ = {.ip = "127.0.0.1"};
  PictureOptions picture_;
  trace::OpenOptions reading_;
};

const Manual& ReportCommand::manual() const {
  static const Manual kManual = {
      "report",
      tr("explain a recording: peak, holders, waste, steps, leaks, advice"),
      "TRACE... [OPTIONS]",
      tr("Explains recordings of GPU memory: PyTorch snapshots of any version (plain, gz, zst or "
         "xz) "
         "and .vtrace files. Prints one screen of at most 50 lines, or JSON. If the recordings of "
         "a "
         "folder, or files named run.rank3.vtrace, are ranks of one program, they are compared; "
         "else "
         "they are listed. Nothing in a file is ever executed."),
      {{"vram report run.pickle", tr("the screen")},
       {"vram report run.vtrace --at step:12", tr("also the holders at the peak of step 12")},
       {"vram report run.vtrace --html run.html", tr("every moment, for a browser")},
       {"vram report run.vtrace --svg run.svg --by category", tr("memory over time as a picture")},
       {"vram report run.vtrace --interactive", tr("moments, holders and findings, by keys")},
       {"vram report runs/", tr("the rank that uses the most memory, and why")},
       {"vram report run.pickle --json -o run.json", tr("everything, as JSON")},
       {"CLICOLOR_FORCE=1 vram report run.pickle | less -R",
        tr("with colours and bars through a pager")}}};
  return kManual;
}

std::vector<Option> ReportCommand::options() {
  std::vector<Option> options = {
      {"TRACE", "TRACE", tr("one or more recordings, or a folder of them; - is standard input"),
       file(&words_)},
      {"--json", "",
       tr("print vram.report/1 (docs/json.md); for several recordings an array of them, for ranks "
          "vram.ranks/1"),
       for_programs(&json_)},
      {"--full", "", tr("print all details, not only the 50 most important lines"), &full_},
      {"--top", "N", tr("holders to list, 0 for all (8 on the screen, 50 in JSON)"),
       value(top_, parse_number<size_t>)},
      {"--at", "TIME",
       tr("also explain this moment: 1.5s, 250ms, step:12, event:1234, peak, oom or oom:1"),
       value(at_, explain::parse_moment)},
      {"--html", "FILE",
       tr("write the report as an HTML page that shows every moment and loads nothing from a "
          "network"),
       file(&html_)},
      {"--serve", "", tr("serve this page to browsers of this machine, without a file"), &serves_},
      {"--listen", "ADDRESS:PORT", tr("where --serve listens (127.0.0.1 at a free port)"),
       value(address_, [](const std::string& text) { return serve::parse_address(text); })},
      {"--interactive", "",
       tr("browse moments, holders and findings in the terminal; F1 lists the keys"),
       &is_interactive_},
      {"--device", "N",
       tr("the main device of the report (default: the one with the largest peak)"),
       value(device_, parse_number<uint32_t>)},
      output_option(output_),
      force_option(output_),
      max_size_option(reading_)};
  for (Option& option : picture_options(picture_)) options.push_back(std::move(option));
  return options;
}

std::string ReportCommand::draw(const explain::Report& report, const Console& console) const {
  if (json_) return show::report_json(report, {.top = top_.value_or(show::JsonOptions{}.top)});
  show::TextOptions options = text_options(output_, console);
  options.top = top_;
  if (!full_) options.max_lines = kScreenLines;
  return show::draw_report(report, options);
}

Result<explain::Report> ReportCommand::explained(const std::string& path,
                                                 const Console& console) const {
  VRAM_TRY_ASSIGN(const auto trace, open_with_progress(path, reading_, console));
  Progress progress(console, tr("explaining"));
  progress.announce(trace.events.size());
  explain::ExplainOptions options;
  options.device = device_;
  options.progress = [&progress](std::string_view stage, double share) {
    progress.update_stage(stage, share);
  };
  auto report = explain_with_moment(trace, options, at_);
  if (!report) return tl::unexpected(with_path(trace.origin.path, report.error()));
  return report;
}

Result<std::string> ReportCommand::one(const std::string& path, const Console& console) const {
  VRAM_TRY_ASSIGN(const auto report, explained(path, console));
  return draw(report, console);
}

std::string ReportCommand::draw_together(const std::vector<explain::Report>& reports,
                                         const Console& console) const {
  if (reports.size() == 1) return draw(reports.front(), console);
  show::TextOptions options = text_options(output_, console);
  options.top = top_;
  if (explain::is_one_program(reports)) {
    const explain::RankReport ranks = explain::compare_ranks(reports);
    return json_ ? show::ranks_json(ranks) : show::draw_ranks(ranks, options);
  }
  if (!json_) return show::draw_files(reports, options);
  std::vector<std::string> documents;
  for (const explain::Report& report : reports) documents.push_back(draw(report, console));
  return join(documents);
}

// A file that can't be read costs a line and the exit code; the others are still shown.
Result<int> ReportCommand::print_together(Console& console) const {
  if (at_) {
    return fail(Code::kBadInput, "--at needs a single recording, found {}: name one file",
                traces_.size());
  }
  int code = 0;
  std::vector<explain::Report> reports;
  for (const std::string& path : traces_) {
    auto report = explained(path, console);
    if (!report) {
      console.error(report.error().message);
      code = kBadUsage;
      continue;
    }
    if (!report->process.rank) report->process.rank = rank_in_name(path);
    reports.push_back(std::move(*report));
  }
  if (reports.empty()) return code;
  const std::string document = draw_together(reports, console);
  return deliver(document, output_, console).map([code] { return code; });
}

std::string ReportCommand::join(const std::vector<std::string>& documents) const {
  if (!json_) return fmt::format("{}", fmt::join(documents, "\n\n"));
  if (documents.size() == 1) return documents.front();
  return fmt::format("[\n{}]\n", fmt::join(documents, ",\n"));
}

// On the screen, a recording that can't be read does not keep the others away.
Result<int> ReportCommand::print_each(Console& console) const {
  int code = 0;
  bool first = true;
  for (const std::string& path : traces_) {
    if (console.output_is_closed()) break;
    const auto document = one(path, console);
    if (!document) {
      console.error(document.error().message);
      code = kBadUsage;
      continue;
    }
    VRAM_TRY(console.print(std::exchange(first, false) ? *document : "\n\n" + *document));
  }
  return code;
}

// A document for programs, and a file, is complete or absent.
Result<int> ReportCommand::write_all(Console& console) const {
  std::vector<std::string> documents;
  for (const std::string& path : traces_) {
    VRAM_TRY_ASSIGN(auto document, one(path, console));
    documents.push_back(std::move(document));
  }
  return deliver(join(documents), output_, console).map([] { return 0; });
}

// A page shows every moment; what --at names is one of them.
Result<int> ReportCommand::show_page(Console& console) const {
  const std::string_view page = serves_ ? "--serve" : "--html";
  if (json_ || at_) {
    return fail(Code::kBadInput, "{} and {} exclude each other: name one", page,
                json_ ? "--json" : "--at");
  }
  if (serves_) {
    if (!html_.empty())
      return fail(Code::kBadInput, "--serve and --html exclude each other: name one");
    VRAM_TRY_ASSIGN(
        auto made,
        make_report_page({.paths = traces_, .device = device_, .reading = reading_}, console));
    return serve_page(std::move(made), address_, console).map([] { return 0; });
  }
  const PageRequest request{
      .paths = traces_, .device = device_, .reading = reading_, .output = output_to(html_)};
  return write_report_page(request, console).map([] { return 0; });
}

Result<int> ReportCommand::draw_pictures(const Console& console) const {
  if (json_ || serves_ || !html_.empty())
    return fail(Code::kBadInput, "--svg and --png exclude {}: name one",
                json_     ? "--json"
                : serves_ ? "--serve"
                          : "--html");
  if (at_ && picture_.kind != PictureKind::kFlame)
    return fail(Code::kBadInput,
                "a timeline has every moment: use --from and --to, or --picture flame with --at");
  if (traces_.size() != 1)
    return fail(Code::kBadInput, "a picture shows a single recording, found {}: name one file",
                traces_.size());
  const PictureRequest request{.path = traces_.front(),
                               .device = device_,
                               .at = at_,
                               .reading = reading_,
                               .is_forced = output_.is_forced};
  return write_pictures(request, picture_, console).map([] { return 0; });
}

// The terminal is opened first: without one there is no work to do.
Result<int> ReportCommand::browse(const Console& console) const {
  if (json_ || serves_ || !html_.empty() || !output_.path.empty())
    return fail(Code::kBadInput, "--interactive excludes {}: name one",
                json_            ? "--json"
                : serves_        ? "--serve"
                : !html_.empty() ? "--html"
                                 : "--output");
  if (traces_.size() != 1)
    return fail(Code::kBadInput, "--interactive shows a single recording, found {}: name one file",
                traces_.size());
  auto terminal = open_browse_terminal(console.unicode(), console.colour());
  if (!terminal) {
    console.error(terminal.error().message);
    return kEnvironment;
  }
  show_waiting(trf("reading {}", traces_.front()), *terminal);
  VRAM_TRY_ASSIGN(const auto trace, trace::open_trace(traces_.front(), reading_));
  show_waiting(tr("explaining"), *terminal);
  explain::ExplainOptions options;
  options.device = device_;
  auto report = explain_with_moment(trace, options, at_);
  if (!report) return tl::unexpected(with_path(trace.origin.path, report.error()));
  BrowseLoop(trace, *report, *std::move(terminal)).run();
  return 0;
}

Result<int> ReportCommand::run(Console& console) {
  VRAM_TRY_ASSIGN(auto recordings, find_recordings(words_));
  traces_ = std::move(recordings.paths);
  for (const std::string& path : {output_.path, html_, picture_.svg, picture_.png})
    VRAM_TRY(check_output(output_to(path), traces_));
  if (picture_.is_wanted()) return draw_pictures(console);
  if (picture_.has_settings())
    return fail(Code::kBadInput,
                "--picture, --by, --axis, --from, --to, --size, --scale, --theme and --title "
                "describe a picture: add --svg FILE or --png FILE");
  if (is_interactive_) return browse(console);
  if (!html_.empty() || serves_) return show_page(console);
  if (recordings.is_folder || recordings.are_named_ranks) return print_together(console);
  const bool for_the_screen = !json_ && output_.path.empty();
  return for_the_screen ? print_each(console) : write_all(console);
}

}  // namespace

std::unique_ptr<Command> report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace vram::cli
