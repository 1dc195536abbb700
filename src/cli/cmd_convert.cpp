// vram convert: a recording in another form.
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/recordings.hpp"
#include "explain/explain.hpp"
#include "trace/export/export.hpp"
#include "trace/vtrace/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace vram::cli {
namespace {

struct Format {
  std::string_view extension;
  Result<> (*write)(const trace::Trace& trace, const std::string& path, Replace replace);
};

constexpr std::array kFormats = {Format{".vtrace", &trace::write_vtrace},
                                 Format{".csv", &trace::export_csv},
                                 Format{".jsonl", &trace::export_jsonl}};

class ConvertCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  std::string trace_;
  Output out_;
  trace::OpenOptions reading_;
};

const Manual& ConvertCommand::manual() const {
  static const Manual kManual = {
      "convert",
      "convert a recording to .vtrace, .csv or .jsonl",
      "TRACE OUT [OPTIONS]",
      "Converts a recording to the format of OUT's extension: .vtrace (compact, complete, fast to "
      "read), .csv (one line for each event, for spreadsheets and data frames) or .jsonl (one JSON "
      "object for each line, for jq). OUT appears when it is complete; it replaces only files that "
      "vram wrote.",
      {{"vram convert run.pickle run.vtrace", "store it in a fraction of the space"},
       {"vram convert run.pickle run.csv", "load it with pandas or DuckDB"}}};
  return kManual;
}

std::vector<Option> ConvertCommand::options() {
  return {{"TRACE", "TRACE", "the recording to read", file(&trace_)},
          {"OUT", "OUT", "the file to write; its extension selects the format", file(&out_.path)},
          force_option(out_),
          max_size_option(reading_)};
}

Result<Format> format_of(const std::string& path) {
  const auto* const found = std::ranges::find_if(
      kFormats, [&](const Format& format) { return path.ends_with(format.extension); });
  if (found != kFormats.end()) return *found;
  return fail(Code::kBadInput,
              "{}: cannot determine the format; use the extension .vtrace, .csv or .jsonl", path);
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

Result<int> ConvertCommand::run(Console& console) {
  VRAM_TRY_ASSIGN(const auto format, format_of(out_.path));
  if (same_file(trace_, out_.path)) {
    return fail(Code::kBadInput, "{}: input and output are the same file; name another output",
                out_.path);
  }
  VRAM_TRY(check_output(out_));
  VRAM_TRY_ASSIGN(const auto trace, open_with_progress(trace_, reading_, console));
  VRAM_TRY(explain::check_contents(trace));
  if (const auto cut = trace.origin.truncated_at_byte) {
    console.warning(fmt::format("{}: truncated at byte {}; everything before that is converted",
                                trace_, format_count(*cut)));
  }
  Progress progress(console, "writing " + out_.path);
  progress.announce(trace.events.size());
  return format.write(trace, out_.path, replace_for(out_.is_forced)).map([] { return 0; });
}

}  // namespace

std::unique_ptr<Command> convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace vram::cli
