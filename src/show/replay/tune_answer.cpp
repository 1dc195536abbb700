#include "show/replay/tune_answer.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "replay/fidelity.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/tune/tune_space.hpp"
#include "show/draw/page.hpp"
#include "show/names.hpp"
#include "show/replay/replay_parts.hpp"
#include "show/report/breakdown.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show {
namespace {

using replay::ReplayResult;
using replay::TuneCandidate;
using replay::TuneVerdict;

constexpr uint64_t kWorthMentioning = 97;  // per cent of the recorded settings' peak

const TuneCandidate& best_of(const TuneReport& report) { return report.result.ranked.front(); }
const TuneCandidate& own_of(const TuneReport& report) {
  return report.result.ranked[report.result.recorded];
}

// "the recording's own settings (max_split_size_mb:128)"
std::string own_name(const TuneReport& report) {
  const TuneCandidate& own = own_of(report);
  return trf("the recording's own settings ({})",
             own.spec.settings.empty() ? tr("the defaults") : candidate_name(own));
}

std::string retries_text(uint64_t retries) {
  if (retries == 0) return tr("no retries");
  return fmt::format("{} {}", format_count(retries), retries == 1 ? tr("retry") : tr("retries"));
}

std::string against(const std::string& now, const std::string& before, std::string_view what) {
  if (now == before) return trf("{}{}, as before", now, what);
  return trf("{}{} instead of {}", now, what, before);
}

// Block sizes beyond what was requested.
uint64_t rounding_bytes(const ReplayResult& result) {
  return result.peak_active_bytes - std::min(result.peak_active_bytes, result.peak_requested_bytes);
}

std::string price_sentence(const ReplayResult& now, const ReplayResult& before) {
  return trf("The price: {}; {}; {}.",
             against(duration_text(now.driver_time_ns), duration_text(before.driver_time_ns),
                     tr(" in the driver")),
             against(retries_text(now.retries), retries_text(before.retries), ""),
             against(format_bytes(rounding_bytes(now)), format_bytes(rounding_bytes(before)),
                     tr(" lost to rounding at the peak")));
}

std::string gain_sentence(const TuneReport& report, const ReplayResult& now) {
  const ReplayResult& before = own_of(report).result;
  const std::string reserved = format_bytes(now.peak_reserved_bytes);
  if (!before.completed) {
    return trf(
        "The program then completes with {} reserved at its peak; with {} it runs out of memory. "
        "The price: {} in the driver, {}.",
        reserved, own_name(report), duration_text(now.driver_time_ns), retries_text(now.retries));
  }
  if (now.caught_ooms < before.caught_ooms) {
    return trf(
        "It serves what the recorded program was refused and went on without: {} of {} such "
        "requests are refused then, {} with {}. It reserves {} at its peak.",
        format_count(now.caught_ooms), format_count(before.caught_ooms),
        format_count(before.caught_ooms), own_name(report), reserved);
  }
  if (now.peak_reserved_bytes >= before.peak_reserved_bytes) {
    return trf("It reserves {} at its peak ({} with {}), and costs less in the driver.", reserved,
               format_bytes(before.peak_reserved_bytes), own_name(report));
  }
  const uint64_t saved = before.peak_reserved_bytes - now.peak_reserved_bytes;
  return trf("It reserves {} at its peak instead of {}: {} or {} less than with {}.", reserved,
             format_bytes(before.peak_reserved_bytes), format_bytes(saved),
             format_share(saved, before.peak_reserved_bytes), own_name(report));
}

// Settings are to be copied: one line, however long.
void draw_export(const TuneCandidate& candidate, Page& page) {
  page.add(Line("  ").add(replay::export_line(candidate.spec), Style::kGood));
}

void draw_without_expandable(const TuneReport& report, Page& page) {
  const TuneCandidate* native = best_without_expandable(report);
  if (native == nullptr) return;
  page.paragraph(Line("  "), trf("Where expandable segments are out of the question, this "
                                 "reserves {}:",
                                 format_bytes(native->result.peak_reserved_bytes)));
  draw_export(*native, page);
}

void draw_better(const TuneReport& report, Page& page) {
  const TuneCandidate& best = best_of(report);
  const ReplayResult& own = own_of(report).result;
  const bool is_estimate =
      replay::basis_of(best.result, best.is_recorded, report.fidelity) == replay::Basis::kEstimate;
  page.paragraph(Line("→ ", Style::kStrong),
                 is_estimate ? tr("This may help; set it before the program starts:")
                             : tr("Set this before the program starts:"));
  draw_export(best, page);
  std::string text = gain_sentence(report, best.result);
  if (own.completed) text += " " + price_sentence(best.result, own);
  if (is_estimate) text += trf(" These are estimates: {}.", doubt_text(report.fidelity));
  page.paragraph(Line("  "), printable(text));
  draw_without_expandable(report, page);
}

void draw_recorded_is_best(const TuneReport& report, Page& page) {
  const TuneCandidate& best = best_of(report);
  const ReplayResult& own = own_of(report).result;
  page.paragraph(
      Line("✔ ", Style::kGood),
      printable(trf(
          "Nothing to gain: {} reserve {} at the peak, and no other setting does better by more "
          "than 1 %. {} of that, {}, is what the program itself holds at once.",
          own_name(report), format_bytes(own.peak_reserved_bytes),
          format_share(report.result.peak_live_bytes, own.peak_reserved_bytes),
          format_bytes(report.result.peak_live_bytes))));
  if (best.spec.settings.size() >= own_of(report).spec.settings.size()) return;
  page.paragraph(Line("  "), tr("Fewer settings do as well:"));
  draw_export(best, page);
}

void draw_none_completes(const TuneReport& report, Page& page) {
  const TuneCandidate& best = best_of(report);
  std::string text = trf(
      "No setting that was tried lets the program complete in {}, although no more than {} are "
      "alive at once.",
      format_bytes(report.capacity_bytes.value_or(0)), format_bytes(report.result.peak_live_bytes));
  if (best.result.oom) {
    text += trf(" {} gets farthest, to event {} of {}.", candidate_name(best),
                format_count(best.result.oom->event), format_count(report.events));
  }
  text += tr(" The smallest capacity that suffices: vram replay TRACE --allocator ") +
          best.spec.to_string() + tr(" --min-capacity");
  page.paragraph(Line("✖ ", Style::kBad), printable(text));
}

void draw_holders(const TuneReport& report, Page& page) {
  if (!report.at_peak) return;
  const explain::Breakdown* breakdown = main_breakdown(*report.at_peak, report.has_stacks);
  if (breakdown == nullptr) return;
  page.paragraph(Line("  "), trf("The largest holders then, {}:", phrase(breakdown->by)));
  Table table({{Align::kRight}, {Align::kRight}, {Align::kLeft, Shrink::kFront}, {Align::kRight}});
  const uint64_t whole = report.at_peak->moment.totals.requested_bytes;
  for (size_t i = 0; i < std::min(kTuneHolders, breakdown->holders.size()); ++i) {
    const explain::Holder& holder = breakdown->holders[i];
    table.add_row({Line(format_bytes(holder.requested_bytes), Style::kStrong),
                   Line(format_share(holder.requested_bytes, whole)), Line(printable(holder.name)),
                   Line(counted(holder.count, "block"), Style::kFaint)});
  }
  page.add(table.draw(2, page.columns()));
}

void draw_cannot_fit(const TuneReport& report, Page& page) {
  const uint64_t capacity = report.capacity_bytes.value_or(0);
  const uint64_t live = report.result.peak_live_bytes;
  page.paragraph(
      Line("✖ ", Style::kBad),
      trf("No setting and no allocator can help: the program holds {} at once, {} more than "
          "the capacity of {}.",
          format_bytes(live), format_bytes(live - std::min(live, capacity)),
          format_bytes(capacity)));
  draw_holders(report, page);
}

}  // namespace

std::string candidate_name(const TuneCandidate& candidate) {
  if (candidate.spec.name != "torch")
    return candidate.spec.to_string() + (candidate.result.model ? tr(" (model)") : "");
  return candidate.spec.settings.empty() ? tr("(default)")
                                         : replay::pytorch_conf(candidate.spec).value_or("");
}

const TuneCandidate* best_without_expandable(const TuneReport& report) {
  if (!replay::is_expandable(best_of(report).spec)) return nullptr;
  const auto native = std::ranges::find_if(report.result.ranked, [](const TuneCandidate& each) {
    return !replay::is_expandable(each.spec);
  });
  if (native == report.result.ranked.end() || !native->result.completed) return nullptr;
  const ReplayResult& own = own_of(report).result;
  const uint64_t most = own.peak_reserved_bytes / 100 * kWorthMentioning;
  return own.completed && native->result.peak_reserved_bytes > most ? nullptr : &*native;
}

void draw_answer(const TuneReport& report, Page& page) {
  page.blank();
  switch (report.result.verdict) {
    case TuneVerdict::kBetter:
      return draw_better(report, page);
    case TuneVerdict::kRecordedIsBest:
      return draw_recorded_is_best(report, page);
    case TuneVerdict::kNoneCompletes:
      return draw_none_completes(report, page);
    case TuneVerdict::kPeakIsBefore:
      return page.paragraph(Line("✖ ", Style::kWarning), peak_before_text(report.fidelity));
    case TuneVerdict::kCannotFit:
      return draw_cannot_fit(report, page);
  }
}

}  // namespace vram::show
