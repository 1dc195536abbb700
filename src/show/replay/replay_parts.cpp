#include "show/replay/replay_parts.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "replay/fidelity.hpp"
#include "show/draw/page.hpp"
#include "show/names.hpp"
#include "show/report/report_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>

namespace vram::show {
namespace {

using replay::ReplayResult;

constexpr std::string_view kFitsIn = tr_later("fits in");

uint64_t driver_calls(const ReplayResult& result) {
  uint64_t count = 0;
  for (const replay::DriverCallCount& call : result.driver_calls) count += call.count;
  return count;
}

// One column of figures: what a replay has there, nullopt where it has nothing to compare.
struct ComparedFigure {
  std::string_view title;
  std::function<std::optional<double>(const ReplayResult&)> value;
  std::function<std::string(const ReplayResult&)> text;
  bool largest_is_best = false;
};

std::string capacity_text(const ReplayResult& result) {
  return result.min_capacity_bytes ? format_bytes(*result.min_capacity_bytes) : "unknown";
}

std::optional<double> capacity_of(const ReplayResult& result) {
  if (!result.min_capacity_bytes) return std::nullopt;
  return static_cast<double>(*result.min_capacity_bytes);
}

std::vector<ComparedFigure> figures_of(const ReplayReport& report) {
  using R = const ReplayResult&;
  std::vector<ComparedFigure> figures = {
      {tr("reserved"), [](R r) { return static_cast<double>(r.peak_reserved_bytes); },
       [](R r) { return format_bytes(r.peak_reserved_bytes); }},
      {tr("utilization"), [](R r) { return r.utilization; },
       [](R r) { return format_share(r.peak_requested_bytes, r.peak_reserved_bytes); }, true},
      {tr("calls"), [](R r) { return static_cast<double>(driver_calls(r)); },
       [](R r) { return format_count(driver_calls(r)); }},
      {tr("in driver"), [](R r) { return static_cast<double>(r.driver_time_ns); },
       [](R r) { return r.driver_time_ns == 0 ? "0 s" : format_duration_ns(r.driver_time_ns); }},
      {tr("retries"), [](R r) { return static_cast<double>(r.retries); },
       [](R r) { return format_count(r.retries); }}};
  // In the place of the utilization: a narrow screen has no room for both.
  if (report.searched_min_capacity) figures[1] = {kFitsIn, capacity_of, capacity_text};
  return figures;
}

// What ran out of memory did only a part of the program: its figures say nothing about the whole.
// The smallest capacity is found by replays of their own.
bool counts(const ComparedFigure& figure, const ReplayResult& result) {
  return result.completed || figure.title == kFitsIn;
}

// Empty where all are the same: then nothing is best.
std::optional<double> best_of(const ComparedFigure& figure, const ReplayReport& report) {
  std::optional<double> best;
  bool differ = false;
  for (const Replayed& each : report.results) {
    const std::optional<double> value = figure.value(each.result);
    if (!value || !counts(figure, each.result)) continue;
    differ = differ || (best && *best != *value);
    const bool better = !best || (figure.largest_is_best ? *value > *best : *value < *best);
    if (better) best = value;
  }
  return differ ? best : std::nullopt;
}

Line cell_of(const ComparedFigure& figure, const ReplayResult& result, std::optional<double> best) {
  const std::string text = figure.text(result);
  if (!counts(figure, result)) return Line(text, Style::kFaint);
  return best && figure.value(result) == best ? Line("* " + text, Style::kGood) : Line(text);
}

std::vector<Line> header_row(const std::vector<ComparedFigure>& figures) {
  std::vector<Line> row = {Line(), Line(), Line()};
  for (const ComparedFigure& figure : figures) row.emplace_back(figure.title, Style::kFaint);
  return row;
}

std::string name_of(const Replayed& replayed) {
  return replayed.result.allocator + (replayed.result.model ? tr(" (model)") : "");
}

// "ok" of an estimate would promise too much.
Line outcome_with_basis(const Replayed& replayed, const replay::Fidelity& fidelity) {
  const auto basis = replay::basis_of(replayed.result, replayed.is_recorded, fidelity);
  const bool is_sure = replayed.result.layouts_completed == replayed.result.layouts_tried;
  if (replayed.result.completed && is_sure && basis == replay::Basis::kEstimate)
    return Line(tr("estimate"), Style::kWarning);
  return outcome_of(replayed.result);
}

// "the recording's own settings (torch)"
std::string own_name(const ReplayReport& report) {
  return trf("the recording's own settings ({})", report.recorded.result.allocator);
}

const Replayed* best_other(const ReplayReport& report) {
  const Replayed* best = nullptr;
  for (const Replayed& each : report.results) {
    if (each.is_recorded) continue;
    if (best == nullptr || is_better(each.result, best->result)) best = &each;
  }
  return best;
}

std::string difference_of_two(const ReplayReport& report, const Replayed& other) {
  const uint64_t own = report.recorded.result.peak_reserved_bytes;
  const uint64_t reserved = other.result.peak_reserved_bytes;
  if (report.fidelity.peak_is_before) return peak_before_text(report.fidelity);
  const bool is_estimate =
      replay::basis_of(other.result, false, report.fidelity) == replay::Basis::kEstimate;
  const std::string about = is_estimate ? tr("about ") : "";
  if (reserved == own) {
    return trf("{} would reserve {}as much as {}: {}.", name_of(other), about, own_name(report),
               format_bytes(own));
  }
  const bool less = reserved < own;
  std::string text =
      trf("{} would reserve {}{} {} than {}: {} instead of {}.", name_of(other), about,
          format_bytes(less ? own - reserved : reserved - own), less ? tr("less") : tr("more"),
          own_name(report), format_bytes(reserved), format_bytes(own));
  if (!is_estimate) return text;
  return trf("{} An estimate: {}.", text, doubt_text(report.fidelity));
}

constexpr double kNoticedError = 0.02;  // of the recorded peak

std::string capacity_text(const ReplaySubject& subject) {
  switch (subject.capacity_source) {
    case CapacitySource::kUnlimited:
      return tr("a device without limit");
    case CapacitySource::kAsked:
      return trf("a device of {}{}", format_bytes(subject.capacity_bytes.value_or(0)),
                 subject.card.empty() ? "" : " (" + subject.card + ")");
    case CapacitySource::kRecorded:
      return trf("a device of {}, the {}", format_bytes(subject.capacity_bytes.value_or(0)),
                 subject.recorded_limit_unknown ? tr("most that the recorded program had")
                                                : tr("limit that the recorded program met"));
  }
  return "";
}

std::string why_no_proof(const replay::Fidelity& fidelity) {
  if (fidelity.recorded_calls == 0) {
    return trf(
        "no driver call is recorded to check a replay against; one of the recording's own settings "
        "makes {}",
        fidelity.made_calls == 0 ? tr("none") : format_count(fidelity.made_calls));
  }
  const std::string recorded = counted(fidelity.recorded_calls, "recorded driver call");
  if (fidelity.matched_calls < fidelity.recorded_calls) {
    return trf("a replay of the recording's own settings diverges after call {} of {}",
               format_count(fidelity.matched_calls), recorded);
  }
  if (!fidelity.is_exact()) {
    return trf("a replay of the recording's own settings makes {} instead of {}",
               counted(fidelity.made_calls, "driver call"), recorded);
  }
  return tr("the recording begins in the middle of the program");
}

// Savings are computed against a replay of the recorded settings: one that reserves another amount
// than the program did makes them another program's.
std::string missed_peak(const replay::Fidelity& fidelity) {
  const auto recorded = static_cast<double>(fidelity.recorded_peak_bytes);
  const auto made = static_cast<double>(fidelity.made_peak_bytes);
  const bool is_known = fidelity.recorded_peak_bytes > 0;
  if (!is_known || std::abs(made - recorded) <= kNoticedError * recorded) return "";
  return trf(", and reserves {} at its peak where the program reserved {}",
             format_bytes(fidelity.made_peak_bytes), format_bytes(fidelity.recorded_peak_bytes));
}

}  // namespace

bool is_better(const ReplayResult& a, const ReplayResult& b) {
  const auto rank = [](const ReplayResult& result) {
    const bool is_unsure = result.layouts_completed < result.layouts_tried;
    return std::tuple(!result.completed, is_unsure, result.peak_reserved_bytes,
                      result.driver_time_ns);
  };
  return rank(a) < rank(b);
}

void draw_comparison(const ReplayReport& report, Page& page) {
  if (report.results.size() < 2) return;
  // A peak from before the recording is no match for one in it.
  const bool has_best = !report.fidelity.peak_is_before;
  page.heading(tr("COMPARISON"), has_best ? tr("* the best of those that complete") : "");
  const std::vector<ComparedFigure> figures = figures_of(report);
  std::vector<std::optional<double>> best;
  best.reserve(figures.size());
  for (const ComparedFigure& figure : figures)
    best.push_back(has_best ? best_of(figure, report) : std::nullopt);
  std::vector<Column> columns(3 + figures.size(), Column{Align::kRight});
  columns[1] = columns[2] = Column{};
  columns[1].shrink = Shrink::kEnd;
  columns[5].may_go = columns[7].may_go = true;  // calls, whose time is next to them, and retries
  Table table(columns);
  table.add_row(header_row(figures));
  for (size_t i = 0; i < report.results.size(); ++i) {
    const Replayed& each = report.results[i];
    std::vector<Line> row = {Line(std::to_string(i + 1), Style::kFaint),
                             Line(name_of(each), each.is_recorded ? Style::kStrong : Style::kPlain),
                             outcome_with_basis(each, report.fidelity)};
    for (size_t f = 0; f < figures.size(); ++f)
      row.push_back(cell_of(figures[f], each.result, best[f]));
    table.add_row(std::move(row));
  }
  page.add(table.draw(1, page.columns()));
}

std::string difference_sentence(const ReplayReport& report) {
  const Replayed* const other = best_other(report);
  if (other == nullptr) return "";
  const ReplayResult& own = report.recorded.result;
  const std::string reserved = format_bytes(other->result.peak_reserved_bytes);
  if (own.completed && other->result.completed) return difference_of_two(report, *other);
  if (other->result.completed) {
    return trf("With {} the program completes in {} reserved; with {} it runs out of memory.",
               name_of(*other), reserved, own_name(report));
  }
  const bool alone = std::ranges::count(report.results, false, &Replayed::is_recorded) == 1;
  if (!own.completed) {
    return trf("With {} the program runs out of memory, and {} that.", own_name(report),
               alone ? name_of(*other) + tr(" does not change") : tr("none of the others changes"));
  }
  return trf("With {} the program completes in {} reserved; with {} it runs out of memory.",
             own_name(report), format_bytes(own.peak_reserved_bytes),
             alone ? name_of(*other) : tr("each of the others"));
}

std::string duration_text(int64_t duration_ns) {
  return duration_ns == 0 ? "0 s" : format_duration_ns(duration_ns);
}

std::string doubt_text(const replay::Fidelity& fidelity) {
  return why_no_proof(fidelity) + missed_peak(fidelity);
}

std::string peak_before_text(const replay::Fidelity& fidelity) {
  if (fidelity.start_is_unknown) {
    return tr(
        "What other settings would save is unknown: the recording begins in the middle of the "
        "program, and nothing says how much was reserved then. Record from the beginning of the "
        "program.");
  }
  return trf(
      "What other settings would save is unknown: the recording begins with {} reserved and never "
      "has more, so the program's peak lies before it. Record from the beginning of the program.",
      format_bytes(fidelity.start_reserved_bytes));
}

void draw_subject(const ReplaySubject& subject, Page& page) {
  draw_file(subject.path, subject.format, subject.file_bytes, page);
  const std::string span =
      subject.has_time ? duration_text(subject.duration_ns) : tr("recorded without a clock");
  page.paragraph(Line(), trf("GPU {} · {} · {} replayed on {}", subject.device, span,
                             counted(subject.requests, "request"), capacity_text(subject)));
  const Line bad("✖ ", Style::kWarning);
  if (subject.truncated_at_byte) {
    page.paragraph(bad, trf("the file is cut off at byte {}; what was whole before it is "
                            "replayed",
                            format_count(*subject.truncated_at_byte)));
  }
  if (subject.ring_overflowed) {
    page.paragraph(
        bad, tr("the first part of the recording is missing: replays begin with what was alive "
                "then"));
  }
  if (subject.events == 0) {
    page.paragraph(
        bad, tr("no events were recorded: what was alive at the end is all that is replayed"));
  }
  if (subject.recorded_limit_unknown) {
    page.paragraph(bad,
                   tr("no one limit explains where the recorded program was refused memory (others "
                      "may have filled the device); --capacity sets another than the most it had"));
  }
}

Line outcome_of(const replay::ReplayResult& result) {
  if (!result.completed) return Line(tr("OOM"), Style::kBad);
  if (result.layouts_completed == result.layouts_tried) return Line(tr("ok"));
  return Line(trf("{} of {}", result.layouts_completed, result.layouts_tried), Style::kWarning);
}

}  // namespace vram::show
