// vram diff: what changed between two recordings, and whether that is too much.
#include "base/bytes.hpp"
#include "base/english_texts.hpp"
#include "base/environment.hpp"
#include "base/file.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/diff_sides.hpp"
#include "cli/output.hpp"
#include "cli/recordings.hpp"
#include "cli/report_page.hpp"
#include "explain/diff/baseline.hpp"
#include "explain/diff/diff.hpp"
#include "show/diff/diff.hpp"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::cli {
namespace {

enum class DiffFormat : uint8_t { kText, kGithub, kMarkdown };

// The root of the repository: where CI has checked it out, else this folder.
std::string default_root() {
  for (const char* name : {"GITHUB_WORKSPACE", "CI_PROJECT_DIR"})
    if (std::string folder = environment(name); !folder.empty()) return folder;
  return ".";
}

class DiffCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Output file_output(const std::string& path) const {
    return {.path = path, .is_forced = output_.is_forced, .can_be_forced = true};
  }
  [[nodiscard]] Result<> check() const;
  [[nodiscard]] Result<> check_outputs() const;
  [[nodiscard]] Result<LoadedSide> load(const std::string& first,
                                        const std::vector<std::string>& more,
                                        const Console& console) const;
  [[nodiscard]] Result<> save(const explain::Side& side, Console& console) const;
  [[nodiscard]] std::string draw(const explain::Diff& diff, const Console& console) const;
  [[nodiscard]] Result<> write_files(const explain::Diff& diff, Console& console) const;
  [[nodiscard]] Result<> write(const explain::Diff& diff, Console& console) const;

  std::string a_;
  std::string b_;
  std::vector<std::string> more_a_;
  std::vector<std::string> more_b_;
  std::optional<explain::Limit> limit_;
  std::string baseline_;
  bool accepts_incomplete_ = false;
  bool json_ = false;
  DiffFormat format_ = DiffFormat::kText;
  std::string junit_;
  std::string sarif_;
  std::string html_;
  std::string root_;
  std::optional<size_t> top_;
  Output output_;
  trace::OpenOptions reading_;
};

const Manual& DiffCommand::manual() const {
  static const Manual kManual = {
      "diff",
      tr("compare two recordings: what grew, what is new; the gate for CI"),
      "A B [OPTIONS]",
      tr("Compares the peaks of requested memory, device by device, and the places that hold it at "
         "the "
         "peak. Places are matched by the functions on their stacks, so that moved lines and files "
         "do "
         "not matter; without stacks by names and scopes, or by the order of allocations. A and B "
         "are "
         "recordings, folders of recordings (ranks of a program, or runs of it, of which the "
         "median "
         "counts), or baselines. With --fail-above, exits with 1 if a peak grew by more. "
         "Incomplete "
         "recordings are refused."),
      {{"vram diff before.vtrace after.vtrace", tr("what changed")},
       {"vram diff run.vtrace --save-baseline vram-baseline.toml",
        tr("a small text file, to be committed with the code")},
       {"vram diff vram-baseline.toml run.vtrace --fail-above 2%", tr("the gate")},
       {"vram diff main/ branch/ --fail-above 2%,64MiB --format github",
        tr("with annotations and a job summary")}}};
  return kManual;
}

std::vector<Option> DiffCommand::options() {
  Option b{"B", "B", tr("the new side; may be missing with --save-baseline"), file(&b_)};
  b.may_be_missing = true;
  return {
      {"A", "A",
       tr("the old side: a recording, a folder of recordings, or a baseline; - is standard input"),
       file(&a_)},
      std::move(b),
      {"--run-a", "FILE", tr("a further run of A; may be repeated"), file(&more_a_)},
      {"--run-b", "FILE", tr("a further run of B; may be repeated"), file(&more_b_)},
      {"--fail-above", "LIMIT",
       tr("exit with 1 if the peak of a device grew by more than 2% or 64MiB; 2%,64MiB: by more "
          "than "
          "the larger of both"),
       value(limit_, explain::parse_limit)},
      {"--save-baseline", "FILE",
       tr("write B (without B: A) as a baseline, which replaces only a file that vram wrote"),
       file(&baseline_)},
      {"--accept-incomplete", "",
       tr("compare truncated and overflowed recordings, and sides that lack a device"),
       &accepts_incomplete_},
      {"--json", "", tr("print vram.diff/1 (docs/json.md)"), for_programs(&json_)},
      {"--format", "FORMAT",
       tr("text; github: also annotations, and a summary in $GITHUB_STEP_SUMMARY; markdown (text)"),
       choice(format_, Words<DiffFormat>{{"text", DiffFormat::kText},
                                         {"github", DiffFormat::kGithub},
                                         {"markdown", DiffFormat::kMarkdown}})},
      {"--junit", "FILE", tr("also write JUnit XML, a test case for each device"), file(&junit_)},
      {"--sarif", "FILE", tr("also write SARIF 2.1.0"), file(&sarif_)},
      {"--html", "FILE", tr("also write an HTML page with both recordings (docs/html-report.md)"),
       file(&html_)},
      {"--source-root", "DIR",
       tr("the repository, to which annotations and baselines name files ($GITHUB_WORKSPACE, "
          "$CI_PROJECT_DIR or this folder)"),
       file(&root_)},
      {"--top", "N", tr("devices and sites to list, 0 for all (8 on the screen, 50 in JSON)"),
       value(top_, parse_number<size_t>)},
      output_option(output_),
      force_option(output_),
      max_size_option(reading_)};
}

Result<> DiffCommand::check() const {
  if (b_.empty() && baseline_.empty()) {
    return fail(Code::kBadInput,
                "expected two sides to compare, found only {}; name a second one, or write a "
                "baseline of it: vram diff {} --save-baseline FILE",
                a_, a_);
  }
  const bool needs_b =
      limit_ || !more_b_.empty() || json_ || !junit_.empty() || !sarif_.empty() || !html_.empty();
  if (b_.empty() && needs_b)
    return fail(Code::kBadInput, "expected a side B to compare {} with, found none", a_);
  if (json_ && format_ != DiffFormat::kText)
    return fail(Code::kBadInput, "--json and --format exclude each other: name one");
  return check_outputs();
}

// A baseline is written again in its place.
Result<> DiffCommand::check_outputs() const {
  std::vector<std::string> words = {a_};
  if (!b_.empty()) words.push_back(b_);
  words.insert(words.end(), more_a_.begin(), more_a_.end());
  words.insert(words.end(), more_b_.begin(), more_b_.end());
  VRAM_TRY_ASSIGN(auto inputs, find_recordings(words));
  VRAM_TRY(check_output(output_, inputs.paths));
  for (const std::string& path : {junit_, sarif_, html_})
    VRAM_TRY(check_output(file_output(path), inputs.paths));
  std::erase_if(inputs.paths, is_baseline);
  VRAM_TRY(check_output(file_output(baseline_), inputs.paths));
  return check_outputs_differ({output_.path, junit_, sarif_, html_, baseline_});
}

Result<LoadedSide> DiffCommand::load(const std::string& first, const std::vector<std::string>& more,
                                     const Console& console) const {
  SideRequest request{
      .words = {first}, .accepts_incomplete = accepts_incomplete_, .reading = reading_};
  request.words.insert(request.words.end(), more.begin(), more.end());
  VRAM_TRY_ASSIGN(auto loaded, load_side(request, console));
  make_relative(loaded.side, root_.empty() ? default_root() : root_);
  return loaded;
}

Result<> DiffCommand::save(const explain::Side& side, Console& console) const {
  if (baseline_.empty()) return {};
  return deliver_as_it_is(explain::write_baseline(side), file_output(baseline_), console);
}

std::string DiffCommand::draw(const explain::Diff& diff, const Console& console) const {
  if (json_) return show::diff_json(diff, top_.value_or(show::kDefaultJsonSites));
  if (format_ == DiffFormat::kMarkdown) return show::diff_markdown(diff);
  show::TextOptions options = text_options(output_, console);
  options.top = top_;
  std::string text = show::draw_diff(diff, options);
  if (format_ != DiffFormat::kGithub) return text;
  return show::without_github_commands(text) + show::diff_annotations(diff);
}

Result<> append(const std::string& text, const std::string& path) {
  std::ofstream file(path, std::ios::app);
  file << text << std::flush;
  if (file) return {};
  return fail(Code::kIo, "cannot write the job summary to $GITHUB_STEP_SUMMARY, {}", path);
}

Result<> DiffCommand::write_files(const explain::Diff& diff, Console& console) const {
  const EnglishTexts english;
  if (!junit_.empty())
    VRAM_TRY(deliver_as_it_is(show::diff_junit(diff), file_output(junit_), console));
  if (!sarif_.empty())
    VRAM_TRY(deliver_as_it_is(show::diff_sarif(diff, VRAM_VERSION), file_output(sarif_), console));
  if (!html_.empty()) {
    const PageRequest request{.paths = {a_, b_}, .reading = reading_, .output = file_output(html_)};
    VRAM_TRY(write_diff_page(request, show::diff_json(diff, show::kDefaultJsonSites), console));
  }
  return {};
}

Result<> DiffCommand::write(const explain::Diff& diff, Console& console) const {
  VRAM_TRY(write_files(diff, console));
  const std::string summary =
      format_ == DiffFormat::kGithub ? environment("GITHUB_STEP_SUMMARY") : std::string();
  if (!summary.empty()) VRAM_TRY(append(show::diff_markdown(diff), summary));
  return deliver(draw(diff, console), output_, console);
}

Result<int> DiffCommand::run(Console& console) {
  VRAM_TRY(check());
  VRAM_TRY_ASSIGN(auto a, load(a_, more_a_, console));
  if (b_.empty()) return save(a.side, console).map([] { return 0; });
  VRAM_TRY_ASSIGN(auto b, load(b_, more_b_, console));
  explain::Diff diff = explain::compare(a.side, b.side, limit_);
  diff.accepts_missing = accepts_incomplete_;
  for (auto* side : {&a, &b})
    diff.incomplete.insert(diff.incomplete.end(), side->incomplete.begin(), side->incomplete.end());
  VRAM_TRY(write(diff, console));
  const std::vector<std::string> missing = explain::unjudged_devices(diff);
  if (!missing.empty()) {
    return fail(
        Code::kBadInput,
        "{} has no {}, which {} has, so the limit cannot be judged; record the same devices, "
        "or add --accept-incomplete",
        diff.b_name, fmt::join(missing, ", "), diff.a_name);
  }
  VRAM_TRY(save(b.side, console));
  return diff.has_regression() ? kFailed : 0;
}

}  // namespace

std::unique_ptr<Command> diff_command() { return std::make_unique<DiffCommand>(); }

}  // namespace vram::cli
