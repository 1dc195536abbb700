#include "show/replay/tune.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "replay/peers/torch_options.hpp"
#include "show/draw/page.hpp"
#include "show/draw/plot.hpp"
#include "show/names.hpp"
#include "show/replay/replay_json.hpp"
#include "show/replay/replay_parts.hpp"
#include "show/replay/tune_answer.hpp"
#include "show/report/report_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::show {
namespace {

using replay::ReplayResult;
using replay::TuneCandidate;
using replay::TuneVerdict;

constexpr int kColumnsForBars = 96;    // else the share as a number
constexpr int kColumnsForShares = 80;  // else neither
constexpr int kBarColumns = 10;
constexpr int kMinNameWidth = 24;

struct RankedRow {
  size_t rank = 0;
  const TuneCandidate* candidate = nullptr;
};

// Whether `candidate` is the other one with further settings.
bool extends(const TuneCandidate& candidate, const TuneCandidate& other) {
  const auto& settings = candidate.spec.settings;
  return !other.spec.settings.empty() &&
         std::ranges::all_of(other.spec.settings, [&](const auto& setting) {
           return std::ranges::find(settings, setting) != settings.end();
         });
}

bool is_searched(const TuneCandidate& candidate) {
  return candidate.is_recorded ||
         (candidate.spec.name == "torch" && candidate.spec.settings.empty());
}

// The first of each tier, but for those that add settings to one listed before. And those that
// people look for.
std::vector<RankedRow> rows_of(const std::vector<TuneCandidate>& ranked, size_t top) {
  std::vector<RankedRow> rows;
  size_t listed = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    const TuneCandidate& each = ranked[i];
    const bool adds = (i == 0 || each.tier != ranked[i - 1].tier) &&
                      !std::ranges::any_of(rows, [&](const RankedRow& row) {
                        return extends(each, *row.candidate);
                      });
    const bool wanted = top == 0 || (adds && listed < top);
    if (wanted) ++listed;
    if (wanted || is_searched(each)) rows.push_back({i + 1, &each});
  }
  return rows;
}

uint64_t largest_of(const std::vector<RankedRow>& rows) {
  uint64_t largest = 1;
  for (const RankedRow& row : rows)
    largest = std::max(largest, row.candidate->result.peak_reserved_bytes);
  return largest;
}

Line bar_of(const ReplayResult& result, uint64_t largest) {
  const uint64_t requested = std::min(result.peak_requested_bytes, result.peak_reserved_bytes);
  const std::array<BarPart, 3> parts = {
      {{requested, "█", Style::kActive},
       {result.peak_reserved_bytes - requested, "░", Style::kReserved},
       {largest - std::min(largest, result.peak_reserved_bytes), " ", Style::kPlain}}};
  return stacked_bar(parts, kBarColumns);
}

std::string share_of(const ReplayResult& result) {
  return format_share(result.peak_requested_bytes, result.peak_reserved_bytes);
}

std::string name_of(const TuneCandidate& candidate) {
  return printable(candidate_name(candidate)) + (candidate.is_recorded ? tr("  ← recorded") : "");
}

// What ran out of memory did only a part of the program.
Style style_of(const RankedRow& row) {
  if (!row.candidate->result.completed) return Style::kFaint;
  return row.rank == 1 || row.candidate->is_recorded ? Style::kStrong : Style::kPlain;
}

// Settings in as many lines as they need, broken after commas: they are there to be copied.
std::vector<std::string> name_lines(const std::string& name, int columns) {
  std::vector<std::string> lines(1);
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find(',', begin), name.size() - 1) + 1;
    const std::string piece = name.substr(begin, end - begin);
    if (!lines.back().empty() && display_width(lines.back() + piece) > columns)
      lines.emplace_back();
    lines.back() += piece;
    begin = end;
  }
  return lines;
}

class RankedRows {
 public:
  RankedRows(const std::vector<RankedRow>& rows, const Page& page)
      : rows_(rows),
        bars_(page.options().bars && page.columns() >= kColumnsForBars),
        has_ooms_(std::ranges::any_of(rows,
                                      [](const RankedRow& row) {
                                        return row.candidate->result.layouts_completed <
                                               row.candidate->result.layouts_tried;
                                      })),
        largest_(largest_of(rows)),
        columns_(page.columns()) {}

  std::vector<Line> draw() const {
    std::vector<Column> columns(7, Column{Align::kRight});
    columns[1] = Column{};
    columns[6] = Column{Align::kLeft, Shrink::kEnd};
    if (bars_) columns[2] = Column{};
    Table table(columns);
    table.add_row(titles());
    for (const RankedRow& row : rows_) add(row, table);
    return table.draw(1, columns_);
  }

 private:
  Line picture_of(const RankedRow& row) const {
    const ReplayResult& result = row.candidate->result;
    if (bars_) return bar_of(result, largest_);
    return columns_ >= kColumnsForShares ? Line(share_of(result), style_of(row)) : Line();
  }
  std::vector<Line> titles() const {
    std::vector<Line> titles(2);
    for (const char* title : {bars_ || columns_ < kColumnsForShares ? "" : tr("utilized"),
                              tr("reserved"), tr("in driver"), tr("retries")})
      titles.emplace_back(title, Style::kFaint);
    return titles;
  }
  std::vector<Line> figures(const RankedRow& row) const {
    const ReplayResult& result = row.candidate->result;
    const Style style = style_of(row);
    return {Line(std::to_string(row.rank), Style::kFaint),
            has_ooms_ ? outcome_of(result) : Line(),
            picture_of(row),
            Line(format_bytes(result.peak_reserved_bytes), style),
            Line(duration_text(result.driver_time_ns), style),
            Line(format_count(result.retries), style)};
  }
  void add(const RankedRow& row, Table& table) const {
    std::vector<Line> cells = figures(row);
    for (const std::string& line : name_lines(name_of(*row.candidate), name_columns())) {
      cells.resize(6);
      cells.emplace_back(line, style_of(row));
      table.add_row(std::exchange(cells, {}));
    }
  }
  // Next to the widest figures.
  int name_columns() const {
    int others = 1;
    std::array<int, 6> widest = {0, 0, 0, 8, 9, 7};
    for (const RankedRow& row : rows_) {
      const std::vector<Line> cells = figures(row);
      for (size_t i = 0; i < cells.size(); ++i) widest[i] = std::max(widest[i], cells[i].width());
    }
    for (const int width : widest) others += width > 0 ? width + 2 : 0;
    return std::max(columns_ - others, kMinNameWidth);
  }

  const std::vector<RankedRow>& rows_;
  bool bars_;
  bool has_ooms_;
  uint64_t largest_;
  int columns_;
};

void draw_settings(const TuneReport& report, Page& page) {
  const std::vector<TuneCandidate>& ranked = report.result.ranked;
  page.heading(tr("SETTINGS"),
               tr("best first; reserved peaks within 1 % count as equal, then fewer settings win"));
  const std::vector<RankedRow> rows = rows_of(ranked, page.options().top.value_or(kDefaultRows));
  page.add(RankedRows(rows, page).draw());
  if (rows.size() < ranked.size()) {
    page.paragraph(Line(" "),
                   trf("{} more were tried; --top 0 lists them, --json has their figures",
                       format_count(ranked.size() - rows.size())),
                   Style::kFaint);
  }
}

void draw_others(const TuneReport& report, Page& page) {
  if (report.result.others.empty()) return;
  page.heading(tr("OTHER ALLOCATORS"), tr("no settings of PyTorch; a model is an approximation"));
  std::vector<RankedRow> rows;
  for (const TuneCandidate& each : report.result.others) rows.push_back({rows.size() + 1, &each});
  page.add(RankedRows(rows, page).draw());
}

// About the settings that the answer names.
std::vector<std::string> notes_of(const TuneReport& report) {
  std::vector<std::string> notes;
  if (report.result.verdict != TuneVerdict::kBetter) return notes;
  notes = replay::setting_notes(report.result.ranked.front().spec);
  if (const TuneCandidate* native = best_without_expandable(report)) {
    for (std::string& note : replay::setting_notes(native->spec)) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  return notes;
}

void draw_notes(const TuneReport& report, Page& page) {
  std::vector<std::string> notes = notes_of(report);
  if (report.capacity_source == CapacitySource::kRecorded) {
    notes.emplace_back(tr(
        "the recording holds a refused request: what the program would have done with that memory "
        "is unknown and in none of the replays"));
  }
  if (notes.empty()) return;
  page.heading(tr("NOTES"), "");
  for (const std::string& note : notes) page.paragraph(Line("  · ", Style::kFaint), note);
}

}  // namespace

std::string draw_tune(const TuneReport& report, const TextOptions& options) {
  VRAM_CHECK(report.result.recorded < report.result.ranked.size());
  Page page(options);
  draw_subject(report, page);
  page.paragraph(Line(), trf("{} with different settings and allocators",
                             counted(report.result.replays, "replay")));
  draw_answer(report, page);
  const bool has_choice = report.result.verdict != TuneVerdict::kCannotFit &&
                          report.result.verdict != TuneVerdict::kPeakIsBefore;
  if (has_choice) {
    draw_settings(report, page);
    draw_others(report, page);
  }
  draw_notes(report, page);
  return page.finish();
}

namespace {

using replay::TuneCandidate;
using replay::TuneVerdict;

std::string_view verdict_word(TuneVerdict verdict) {
  switch (verdict) {
    case TuneVerdict::kBetter:
      return "better";
    case TuneVerdict::kRecordedIsBest:
      return "recorded_is_best";
    case TuneVerdict::kNoneCompletes:
      return "none_completes";
    case TuneVerdict::kPeakIsBefore:
      return "peak_is_before";
    case TuneVerdict::kCannotFit:
      return "cannot_fit";
  }
  return "unknown";
}

Json json_conf(const replay::AllocatorSpec& spec) {
  const auto conf = replay::pytorch_conf(spec);
  return conf ? json_text(*conf) : Json();
}

Json json_oom(const TuneCandidate& candidate, bool has_time) {
  if (!candidate.result.oom) return Json();
  const replay::ReplayOom& oom = *candidate.result.oom;
  Json json = {{"time_ns", has_time ? Json(oom.time_ns) : Json()}, {"event", oom.event}};
  json.update(json_oom_sizes(oom));
  return json;
}

Json json_candidate(const TuneCandidate& candidate, size_t rank, const ReplaySubject& subject) {
  Json notes = Json::array();
  for (const std::string& note : replay::setting_notes(candidate.spec)) notes.push_back(note);
  Json json = {{"rank", rank},
               {"tier", candidate.tier},
               {"conf", json_conf(candidate.spec)},
               {"setting_count", candidate.spec.settings.size()},
               {"notes", std::move(notes)}};
  json.update(json_replayed(candidate.result, candidate.is_recorded, subject.fidelity));
  json["oom"] = json_oom(candidate, subject.has_time);
  return json;
}

Json json_candidates(const std::vector<TuneCandidate>& candidates, const ReplaySubject& subject) {
  Json json = Json::array();
  for (const TuneCandidate& each : candidates)
    json.push_back(json_candidate(each, json.size() + 1, subject));
  return json;
}

}  // namespace

std::string tune_json(const TuneReport& report) {
  const replay::TuneResult& result = report.result;
  Json settings = json_candidates(result.ranked, report);
  const bool has_answer =
      result.ranked.front().result.completed && result.verdict != TuneVerdict::kPeakIsBefore;
  Json document = {{"schema", "vram.tune/1"}};
  document.update(json_subject(report));
  document.update({{"verdict", verdict_word(result.verdict)},
                   {"conf", has_answer ? json_conf(result.ranked.front().spec) : Json()},
                   {"replays", result.replays},
                   {"peak_live_bytes", result.peak_live_bytes},
                   {"holders", report.at_peak ? json_main_holders(*report.at_peak,
                                                                  report.has_stacks, kTuneHolders)
                                              : Json::array()}});
  document["recorded"] = settings[result.recorded];
  document["settings"] = std::move(settings);
  document["others"] = json_candidates(result.others, report);
  return document.dump(2) + "\n";
}

}  // namespace vram::show
