#include "show/free_text.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "show/draw/table.hpp"
#include "show/page.hpp"
#include "show/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vram::show {
namespace {

using watch::Holder;
using watch::TrimAnswer;
using watch::TrimOutcome;

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOutcomes = {{
    {"answered", ""},
    {"silent", "no answer in time: it answers when it next posts, at a step or a region's end"},
    {"taken", "another request was pending the whole time: try again"},
    {"ended", "it ended before it answered"},
    {"left", "it has taken its page off the board"},
    {"refused", ""},
}};

Line cell(std::string_view text, Style style = Style::kPlain) { return Line(text, style); }

Line remark_of(const Holder& holder) {
  if (holder.is_gone) return cell("no such process any more", Style::kBad);
  if (holder.is_idle) return cell("idle", Style::kWarning);
  return cell(holder.can_be_asked() ? "" : "can't be asked", Style::kFaint);
}

std::string command_of(const Holder& holder) {
  return holder.facts.command ? printable(*holder.facts.command) : std::string(kUnknown);
}

std::vector<Line> holder_table(const watch::Reclaimable& reclaimable, int columns) {
  Table table({{Align::kRight},
               {},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {},
               {Align::kLeft, Shrink::kEnd}});
  std::vector<Line> titles;
  for (const auto* title : {"pid", "user", "holds", "would give", "posted", "", "command"})
    titles.push_back(cell(title, Style::kFaint));
  table.add_row(std::move(titles));
  for (const Holder& holder : reclaimable.holders) {
    const std::string posted =
        holder.quiet_ns ? duration_text(holder.quiet_ns) + " ago" : std::string(kUnknown);
    table.add_row({cell(std::to_string(holder.facts.pid)), cell(name_text(holder.facts.user)),
                   cell(bytes_text(holder.held_bytes)),
                   cell(bytes_text(holder.cached_bytes()), Style::kStrong), cell(posted),
                   remark_of(holder), cell(command_of(holder))});
  }
  return table.draw(0, columns);
}

void add_dead(const watch::Reclaimable& reclaimable, Page& page) {
  if (reclaimable.dead.empty()) return;
  page.blank();
  for (const watch::DeadPage& dead : reclaimable.dead) {
    page.paragraph(Line("  "), fmt::format("process {} has ended and left its page behind: {}",
                                           dead.pid, printable(dead.command)));
  }
}

void add_notes(const watch::Reclaimable& reclaimable, Page& page) {
  for (const std::string& note : reclaimable.notes)
    page.paragraph(Line("note: ", Style::kFaint), printable(note), Style::kFaint);
}

std::string hint_for(const watch::Reclaimable& reclaimable) {
  uint64_t sum = 0;
  bool can_request = false;
  for (const Holder& holder : reclaimable.holders) {
    if (!holder.can_be_asked()) continue;
    can_request = true;
    if (__builtin_add_overflow(sum, holder.cached_bytes().value_or(0), &sum)) sum = UINT64_MAX;
  }
  if (!can_request)
    return "Nobody can be asked: programs that open a vram.Board() can (docs/measure.md), if they "
           "run "
           "as your user.";
  return fmt::format(
      "Nobody was asked. 'vram free --all' asks for {}, 'vram free PID' one process.",
      format_bytes(sum));
}

std::string answer_text(const TrimAnswer& answer) {
  if (answer.outcome == TrimOutcome::kAnswered)
    return answer.bytes ? "" : "it can't tell how much came back";
  if (answer.outcome == TrimOutcome::kRefused) return printable(answer.why);
  return std::string(kOutcomes.at(static_cast<size_t>(answer.outcome)).second);
}

Line answer_lead(const TrimAnswer& answer) {
  const bool is_good = answer.outcome == TrimOutcome::kAnswered;
  return Line(fmt::format("{:>8}  ", answer.pid))
      .add(fmt::format("{:>10}  ", bytes_text(answer.bytes)), Style::kStrong)
      .add(fmt::format("{:<10}", name_of(answer.outcome)),
           is_good ? Style::kGood : Style::kWarning);
}

}  // namespace

std::string_view name_of(TrimOutcome outcome) {
  return kOutcomes.at(static_cast<size_t>(outcome)).first;
}

std::string draw_reclaimable(const watch::Reclaimable& reclaimable, const TextOptions& options) {
  Page page(options);
  if (!reclaimable.holders.empty()) page.add(holder_table(reclaimable, page.columns()));
  add_dead(reclaimable, page);
  if (!reclaimable.holders.empty() || !reclaimable.dead.empty()) page.blank();
  page.paragraph(Line(), hint_for(reclaimable));
  add_notes(reclaimable, page);
  return page.finish();
}

std::string draw_answers(const watch::Reclaimable& reclaimable, std::span<const TrimAnswer> answers,
                         size_t swept, const TextOptions& options) {
  Page page(options);
  for (const TrimAnswer& answer : answers) page.paragraph(answer_lead(answer), answer_text(answer));
  const auto answered = std::ranges::count(answers, TrimOutcome::kAnswered, &TrimAnswer::outcome);
  page.paragraph(Line(),
                 answers.empty()
                     ? "Nobody was asked: no process that can be asked caches anything."
                     : fmt::format("{} came back; {} of {} answered.",
                                   format_bytes(watch::sum_of(answers)), answered, answers.size()));
  if (swept > 0) page.paragraph(Line(), fmt::format("Pages of dead processes removed: {}.", swept));
  add_notes(reclaimable, page);
  return page.finish();
}

}  // namespace vram::show
