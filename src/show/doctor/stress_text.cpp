#include "show/doctor/stress_text.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/draw/plot.hpp"
#include "show/live/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::show {
namespace {

using stress::Figure;
using stress::StressReport;
using stress::Unit;

constexpr size_t kMaxBadWords = 16;
constexpr int kSparkColumns = 12;

Line faint(std::string_view text) { return Line(text, Style::kFaint); }

std::string text_of(uint64_t value, Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return format_duration_ns(static_cast<int64_t>(value));
    case Unit::kBytesPerSecond:
      return format_bytes(value) + "/s";
    case Unit::kPartsPerMillion:
      return fmt::format("{:.1f} %", static_cast<double>(value) / 1e4);
  }
  return "";
}

void add_verdict(const StressReport& report, Page& page) {
  const auto verdict = report.verdict();
  Line line;
  if (verdict == stress::Verdict::kPassed) line.add(tr("PASSED"), Style::kGood);
  if (verdict == stress::Verdict::kErrors) line.add(tr("ERRORS FOUND"), Style::kBad);
  if (verdict == stress::Verdict::kCutShort) line.add(tr("CUT SHORT"), Style::kWarning);
  if (verdict == stress::Verdict::kUntested) line.add(tr("NOTHING TESTED"), Style::kWarning);
  line.add(trf("  {} of {}, seed {}", format_duration_ns(report.duration_ns),
               format_duration_ns(report.requested_ns), report.seed));
  if (report.was_cut_short) line.add(tr("; ended before its time"), Style::kWarning);
  if (verdict == stress::Verdict::kUntested)
    line.add(tr("; there was no memory, or no time, to compare anything"), Style::kWarning);
  page.add(line);
}

void add_device(const StressReport& report, Page& page) {
  const auto& device = report.device;
  const std::string name = name_text(device.name);
  page.add(Line(
      trf("GPU {}  {}  {}", device.index ? std::to_string(*device.index) : std::string(kUnknown),
          printable(name), printable(name_text(device.uuid))),
      Style::kStrong));
  if (device.is_simulated)
    page.paragraph(Line(), tr("Simulated: speeds are those of this machine's own memory."));
  page.add(faint(trf("{} of memory, {} left to others; {}", format_bytes(device.total_bytes),
                     format_bytes(report.leave_bytes), clock_text(report.time_ns))));
  for (const std::string& other : other_texts(report.others))
    page.paragraph(Line(tr("  also used by: "), Style::kFaint), other);
}

void add_bad_words(const StressReport& report, Page& page) {
  if (report.bad.count == 0) return;
  page.heading(tr("Bad words"), tr("of 64 bits: what came back other than it was written"));
  Table table({{}, {}, {Align::kRight}, {}, {}, {}, {Align::kLeft, Shrink::kEnd}});
  table.add_row({faint(tr("address")), faint(tr("handle")), faint(tr("offset")),
                 faint(tr("expected")), faint(tr("found")), faint(tr("bits")),
                 faint(tr("pattern"))});
  const auto& first = report.bad.first;
  for (size_t i = 0; i < std::min(kMaxBadWords, first.size()); ++i) {
    const stress::BadWord& word = first[i];
    table.add_row({Line(fmt::format("{:#x}", word.address)),
                   Line(word.handle == 0 ? "pool" : fmt::format("{:#x}", word.handle)),
                   Line(fmt::format("{:#x}", word.offset_bytes)),
                   Line(fmt::format("{:016x}", word.expected)),
                   Line(fmt::format("{:016x}", word.found), Style::kBad),
                   Line(fmt::format("{:x}", word.bits())),
                   Line(std::string(tr(std::string_view(word.pattern))))});
  }
  page.add(table.draw(2, page.columns()));
  page.paragraph(Line("  "), trf("{} in all; the JSON has the first {}.",
                                 format_count(report.bad.count), first.size()));
}

void add_failures(const StressReport& report, Page& page) {
  if (report.failures.empty()) return;
  page.heading(tr("Calls that failed"), tr("of the driver, and may not"));
  for (const stress::CallFailure& failure : report.failures)
    page.paragraph(Line("  ").add(failure.call, Style::kBad).add("  "),
                   trf("{} (in: {})", printable(failure.answer), failure.phase));
}

void add_fill(const stress::FillReport& fill, Page& page) {
  page.heading(tr("Patterns"), tr("written over all memory that was free, and read back"));
  page.paragraph(Line("  "),
                 trf("obtained {} of {} free ({}) in {} handles; written {}, compared {}; {} of it "
                     "was compared at least once",
                     format_bytes(fill.obtained_bytes), format_bytes(fill.free_bytes),
                     format_share(fill.obtained_bytes, fill.free_bytes), format_count(fill.handles),
                     format_bytes(fill.written_bytes), format_bytes(fill.compared_bytes),
                     format_share(fill.covered_bytes, fill.obtained_bytes)));
  if (fill.released_bytes != 0)
    page.paragraph(Line("  "), trf("given back midway, because others needed it: {}",
                                   format_bytes(fill.released_bytes)));
  Table table({{}, {Align::kRight}, {Align::kRight}, {Align::kRight}, {Align::kRight}, {}});
  table.add_row({faint(tr("pattern")), faint(tr("written")), faint(tr("compared")),
                 faint(tr("took")), faint(tr("bad words")), faint("")});
  for (const stress::Pass& pass : fill.passes) {
    const char* const extent = !pass.is_complete ? tr("ended early")
                               : pass.is_sampled ? tr("sample")
                                                 : tr("all");
    table.add_row(
        {Line(std::string(tr(std::string_view(pass.pattern)))),
         Line(format_bytes(pass.written_bytes)), Line(format_bytes(pass.compared_bytes)),
         Line(format_duration_ns(pass.duration_ns)),
         Line(format_count(pass.bad_words), pass.bad_words == 0 ? Style::kPlain : Style::kBad),
         faint(extent)});
  }
  page.add(table.draw(2, page.columns()));
}

void add_storm(const stress::StormReport& storm, Page& page) {
  page.heading(tr("Storm"), tr("allocations of every size through the pool"));
  page.paragraph(
      Line("  "),
      trf("{} allocations, {} blocks checked when freed, {} without room; peak requested "
          "{} of {} reserved ({})",
          format_count(storm.allocations), format_count(storm.checked_blocks),
          format_count(storm.ooms), format_bytes(storm.peak_requested_bytes),
          format_bytes(storm.peak_reserved_bytes),
          format_share(storm.peak_requested_bytes, storm.peak_reserved_bytes)));
  if (storm.invalid)
    page.paragraph(Line(tr("  the pool's account is wrong: "), Style::kBad),
                   printable(*storm.invalid));
}

// A name, five figures, and a remark.
Table figure_table() {
  return Table({{},
                {Align::kRight},
                {Align::kRight},
                {Align::kRight},
                {Align::kRight},
                {Align::kRight},
                {}});
}

void add_figures(const std::vector<Figure>& figures, Page& page) {
  if (figures.empty()) return;
  page.heading(tr("Figures"),
               tr("medians; shapes by powers of two, from the lowest sample to the highest"));
  Table table = figure_table();
  table.add_row({faint(""), faint(tr("size")), faint(tr("median")), faint("p99"),
                 faint(tr("highest")), faint(tr("samples")), faint(tr("shape"))});
  for (const Figure& figure : figures) {
    const bool is_latency = figure.unit == Unit::kNanoseconds;
    table.add_row(
        {Line(printable(tr(std::string_view(figure.name)))),
         Line(figure.size_bytes == 0 ? "" : format_bytes(figure.size_bytes)),
         Line(text_of(figure.median, figure.unit), Style::kStrong),
         Line(is_latency ? text_of(figure.p99, figure.unit) : ""),
         Line(figure.count > 1 ? text_of(figure.high, figure.unit) : ""),
         Line(figure.count > 1 ? format_count(figure.count) : ""),
         Line(figure.histogram.size() > 1 ? sparkline(figure.histogram, kSparkColumns) : "")});
  }
  page.add(table.draw(2, page.columns()));
}

void add_counters(const gpu::DeviceHealth& before, const gpu::DeviceHealth& after, Page& page) {
  page.paragraph(
      Line(tr("  memory errors since boot: ")),
      trf("corrected {} -> {}, uncorrected {} -> {}", count_text(before.ecc_since_boot.corrected),
          count_text(after.ecc_since_boot.corrected), count_text(before.ecc_since_boot.uncorrected),
          count_text(after.ecc_since_boot.uncorrected)));
  if (!before.remapped_rows || !after.remapped_rows) return;
  const gpu::RemappedRows& old = *before.remapped_rows;
  const gpu::RemappedRows& rows = *after.remapped_rows;
  page.paragraph(
      Line(tr("  rows remapped: ")),
      fmt::format("{} -> {}", old.corrected + old.uncorrected, rows.corrected + rows.uncorrected));
}

void add_health(const stress::Health& health, Page& page) {
  page.heading(tr("Health"), tr("what telemetry saw: before, at the most, after"));
  if (!health.before || !health.after) {
    page.paragraph(Line("  "), tr("unknown: telemetry did not answer"));
    return;
  }
  const auto& extremes = health.extremes;
  const auto& before = health.before->sample;
  const auto& after = health.after->sample;
  page.paragraph(Line(tr("  temperature: ")),
                 trf("{} -> {} -> {} (memory at most {})", celsius_text(before.celsius),
                     celsius_text(extremes.celsius), celsius_text(after.celsius),
                     celsius_text(extremes.memory_celsius)));
  page.paragraph(Line(tr("  power: ")),
                 fmt::format("{} -> {} -> {}", watts_text(before.milliwatts),
                             watts_text(extremes.milliwatts), watts_text(after.milliwatts)));
  add_counters(health.before->health, health.after->health, page);
  if (!extremes.throttle_reasons.empty()) {
    page.paragraph(Line(tr("  clocks held down by: "), Style::kWarning),
                   printable(fmt::format("{}", fmt::join(extremes.throttle_reasons, ", "))));
  }
  for (const stress::Incident& incident : stress::incidents(health))
    page.paragraph(Line(incident.is_error ? tr("  error: ") : tr("  note: "),
                        incident.is_error ? Style::kBad : Style::kWarning),
                   printable(incident.text));
}

Line trend_line(stress::Trend trend, double limit) {
  constexpr std::array<Style, 4> kStyles = {Style::kFaint, Style::kGood, Style::kWarning,
                                            Style::kBad};
  constexpr std::array<std::string_view, 4> kWords = {tr_later("as before"), tr_later("better"),
                                                      tr_later("worse"), ""};
  const Style style = kStyles.at(static_cast<size_t>(trend));
  if (trend == stress::Trend::kFailing) return Line(trf("worse by > {:.0f} %", 100 * limit), style);
  return Line(tr(kWords.at(static_cast<size_t>(trend))), style);
}

void add_comparison(const stress::Comparison& comparison, Page& page) {
  page.heading(
      tr("Against ") + clock_text(comparison.before_time_ns),
      tr("medians; + is worse: longer or slower; noise: what the samples span by themselves"));
  Table table = figure_table();
  table.add_row({faint(""), faint(tr("size")), faint(tr("before")), faint(tr("now")),
                 faint(tr("change")), faint(tr("noise")), faint("")});
  for (const stress::Change& change : comparison.changes) {
    table.add_row({Line(printable(tr(std::string_view(change.name)))),
                   Line(change.size_bytes == 0 ? "" : format_bytes(change.size_bytes)),
                   Line(text_of(change.before, change.unit)),
                   Line(text_of(change.after, change.unit)),
                   Line(fmt::format("{:+.1f} %", 100 * change.worse)),
                   Line(fmt::format("{:.1f} %", 100 * change.noise)),
                   trend_line(change.trend, comparison.limit)});
  }
  page.add(table.draw(2, page.columns()));
  for (const std::string& name : comparison.not_measured)
    page.paragraph(Line(tr("  not measured this time: "), Style::kWarning), printable(name));
}

}  // namespace

std::vector<std::string> other_texts(const std::vector<stress::OtherUser>& others) {
  std::vector<std::string> texts;
  for (const stress::OtherUser& other : others) {
    texts.push_back(trf("pid {} {} {} ({})", other.pid, printable(name_text(other.user)),
                        printable(name_text(other.command)), bytes_text(other.used_bytes)));
  }
  return texts;
}

std::string draw_stress(const StressReport& report,
                        const std::optional<stress::Comparison>& comparison,
                        const TextOptions& options) {
  Page page(options);
  add_verdict(report, page);
  add_device(report, page);
  add_bad_words(report, page);
  add_failures(report, page);
  add_fill(report.fill, page);
  add_storm(report.storm, page);
  add_health(report.health, page);
  if (comparison) add_comparison(*comparison, page);
  add_figures(report.figures, page);
  return page.finish();
}

}  // namespace vram::show
