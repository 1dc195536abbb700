// vram convert: a recording in another form.
#include "base/bytes.hpp"
#include "base/english_texts.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/recordings.hpp"
#include "explain/explain.hpp"
#include "exports/exports.hpp"
#include "reports/recording.hpp"
#include "trace/export/export.hpp"
#include "trace/vtrace/writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vram::cli {
namespace {

// One of the functions is set; Parquet has neither, since it takes tables.
struct Format {
  std::string_view name;  // as --to takes it
  std::string_view extension;
  std::string_view purpose;
  Result<> (*write_events)(const trace::Trace& trace, const std::string& path, Replace replace);
  exports::Write write;
};

constexpr std::array kFormats = {
    Format{"vtrace", ".vtrace", tr_later("compact, complete, fast to read"), &trace::write_vtrace,
           nullptr},
    Format{"csv", ".csv", tr_later("one line for each event, for spreadsheets and data frames"),
           [](const trace::Trace& trace, const std::string& path, Replace replace) {
             return trace::export_csv(trace, path, replace);
           },
           nullptr},
    Format{"jsonl", ".jsonl", tr_later("one JSON object for each event, for jq"),
           &trace::export_jsonl, nullptr},
    Format{"pytorch", ".pickle",
           tr_later("a memory snapshot, for PyTorch's viewer and torch.cuda._memory_viz"),
           &exports::write_torch_snapshot, nullptr},
    Format{"perfetto", ".pftrace",
           tr_later("totals, steps, scopes and blocks over time, for Perfetto"), nullptr,
           &exports::write_perfetto},
    Format{"chrome", ".trace.json", tr_later("the same as Chrome's trace events"), nullptr,
           &exports::write_chrome_trace},
    Format{"pprof", ".pb.gz",
           tr_later("bytes by stack at the peak and the end, and their growth, for pprof"), nullptr,
           &exports::write_pprof},
    Format{"folded", ".folded",
           tr_later("bytes by stack at the peak, for flamegraph.pl and inferno"), nullptr,
           &exports::write_folded},
    Format{"speedscope", ".speedscope.json", tr_later("peak, end and growth for speedscope"),
           nullptr, &exports::write_speedscope},
    Format{"parquet", ".parquet", tr_later("a folder of tables for DuckDB, Polars and Spark"),
           nullptr, nullptr}};

Words<const Format*> words_of_formats() {
  Words<const Format*> words;
  for (const Format& format : kFormats) words.emplace_back(format.name, &format);
  return words;
}

Words<std::string> words_of_tables() {
  Words<std::string> words;
  for (const std::string_view name : reports::table_names())
    words.emplace_back(std::string(name), std::string(name));
  return words;
}

class ConvertCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<const Format*> format() const;
  [[nodiscard]] bool writes_folder(const Format& format) const {
    return format.name == "parquet" && !table_;
  }
  [[nodiscard]] Result<> check_target(const Format& format) const;
  [[nodiscard]] Result<> write(const Format& format, trace::Trace trace, Console& console) const;
  [[nodiscard]] Result<> write_tables(const reports::SharedRecording& recording) const;

  std::string trace_;
  Output out_;
  std::optional<const Format*> format_;
  std::optional<std::string> table_;
  bool with_events_ = false;
  bool escapes_formulas_ = false;
  trace::OpenOptions reading_;
};

const Manual& ConvertCommand::manual() const {
  static const Manual kManual = {
      "convert",
      tr("convert a recording to the format of another program"),
      "TRACE OUT [OPTIONS]",
      tr("Converts a recording to the format of OUT's extension, or of --to. OUT appears when it "
         "is "
         "complete; it replaces only files that vram wrote. For .parquet, OUT is a folder with a "
         "file "
         "for each table (runs, devices, steps, holders, findings), unless --table names one."),
      {{"vram convert run.pickle run.vtrace", tr("store it in a fraction of the space")},
       {"vram convert run.vtrace run.pftrace", tr("open it in ui.perfetto.dev")},
       {"vram convert run.vtrace run.pickle", tr("open it in pytorch.org/memory_viz")},
       {"vram convert run.vtrace run.pb.gz && pprof -top run.pb.gz",
        tr("who held the peak, by stack")},
       {"vram convert run.vtrace run.parquet --table holders", tr("a table for DuckDB")}},
      {tr("Formats"), [] {
         std::vector<std::pair<std::string, std::string>> rows;
         for (const Format& format : kFormats)
           rows.emplace_back(fmt::format("{} ({})", format.extension, format.name),
                             tr(format.purpose));
         return rows;
       }()}};
  return kManual;
}

std::vector<Option> ConvertCommand::options() {
  return {{"TRACE", "TRACE", tr("the recording to read; - is standard input"), file(&trace_)},
          {"OUT", "OUT",
           tr("the file to write; its extension selects the format; - is standard output"),
           file(&out_.path)},
          {"--to", "FORMAT", tr("the format, whatever OUT is called"),
           choice(format_, words_of_formats())},
          {"--table", "NAME", tr("parquet: write this table, and OUT is a file"),
           choice(table_, words_of_tables())},
          {"--events", "", tr("parquet: also write the tables of allocations and events"),
           &with_events_},
          {"--escape-formulas", "",
           tr("csv: precede texts that a spreadsheet would calculate with an apostrophe"),
           &escapes_formulas_},
          force_option(out_),
          max_size_option(reading_)};
}

Result<const Format*> ConvertCommand::format() const {
  if (format_) return *format_;
  for (const Format& format : kFormats) {
    if (out_.path.ends_with(format.extension)) return &format;
  }
  std::vector<std::string_view> extensions;
  for (const Format& format : kFormats) extensions.push_back(format.extension);
  return fail(Code::kBadInput,
              "{}: cannot determine the format; use one of the extensions {}, or name the format "
              "with --to",
              out_.path, fmt::join(extensions, " "));
}

Result<> ConvertCommand::check_target(const Format& format) const {
  const bool is_parquet = format.name == "parquet";
  if (table_ && !is_parquet)
    return fail(Code::kBadInput, "--table needs a Parquet file, found the format {}", format.name);
  if (with_events_ && !writes_folder(format))
    return fail(
        Code::kBadInput, "--events needs a folder of Parquet files, found {}",
        is_parquet ? fmt::format("--table {}", *table_) : trf("the format {}", format.name));
  if (escapes_formulas_ && format.name != "csv")
    return fail(Code::kBadInput, "--escape-formulas needs CSV, found the format {}", format.name);
  if (!writes_folder(format)) return check_output(out_, {trace_});
  std::error_code error;
  const auto status = std::filesystem::status(out_.path, error);
  if (out_.path == "-" || (std::filesystem::exists(status) && !is_directory(status))) {
    return fail(Code::kBadInput,
                "{} is no folder, and Parquet has a file for each table: name a folder, or one "
                "table (--table)",
                out_.path);
  }
  return {};
}

Result<> ConvertCommand::write_tables(const reports::SharedRecording& recording) const {
  const Replace replace = replace_for(out_.is_forced);
  if (table_) return exports::write_parquet_table(recording, *table_, out_.path, replace);
  std::vector<std::string_view> tables(exports::default_tables().begin(),
                                       exports::default_tables().end());
  if (with_events_) tables.insert(tables.end(), {"allocations", "events"});
  return exports::write_parquet_tables(recording, tables, out_.path, replace)
      .map_error(
          [&](Error error) { return out_.is_forced ? error : with_force(std::move(error)); });
}

Result<> ConvertCommand::write(const Format& format, trace::Trace trace, Console& console) const {
  Progress progress(console, tr("writing ") + out_.path);
  progress.announce(trace.events.size());
  const EnglishTexts english;
  const Replace replace = replace_for(out_.is_forced);
  if (escapes_formulas_)
    return trace::export_csv(trace, out_.path, replace, trace::CsvTexts::kForSpreadsheets);
  if (format.write_events != nullptr) return format.write_events(trace, out_.path, replace);
  explain::ExplainOptions options;
  options.progress = [&progress](std::string_view stage, double share) {
    progress.update_stage(stage, share);
  };
  VRAM_TRY_ASSIGN(auto report, explain::explain(trace, options));
  const auto recording =
      std::make_shared<const reports::Recording>(std::move(trace), std::move(report));
  if (format.write != nullptr) return format.write(recording, out_.path, replace);
  return write_tables(recording);
}

Result<int> ConvertCommand::run(Console& console) {
  VRAM_TRY_ASSIGN(const Format* const format, this->format());
  VRAM_TRY(check_target(*format));
  VRAM_TRY_ASSIGN(auto trace, open_with_progress(trace_, reading_, console));
  VRAM_TRY(explain::check_contents(trace));
  if (const auto cut = trace.origin.truncated_at_byte) {
    console.warning(trf("{}: truncated at byte {}; everything before that is converted", trace_,
                        format_count(*cut)));
  }
  return write(*format, std::move(trace), console).map([] { return 0; });
}

}  // namespace

std::unique_ptr<Command> convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace vram::cli
