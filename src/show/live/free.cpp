#include "show/live/free.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/live/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace vram::show {
namespace {

using watch::Holder;
using watch::TrimAnswer;
using watch::TrimOutcome;

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOutcomes = {{
    {"answered", ""},
    {"silent",
     tr_later("no answer in time: it answers when it next posts, at a step or a region's end")},
    {"taken", tr_later("another request was pending the whole time: try again")},
    {"ended", tr_later("it ended before it answered")},
    {"left", tr_later("it has taken its page off the board")},
    {"refused", ""},
}};

Line cell(std::string_view text, Style style = Style::kPlain) { return Line(text, style); }

Line remark_of(const Holder& holder) {
  if (holder.is_gone) return cell(tr("no such process any more"), Style::kBad);
  if (holder.is_idle) return cell(tr("idle"), Style::kWarning);
  return cell(holder.can_be_asked() ? "" : tr("can't be asked"), Style::kFaint);
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
  for (const auto* title :
       {tr("pid"), tr("user"), tr("holds"), tr("would give"), tr("posted"), "", tr("command")})
    titles.push_back(cell(title, Style::kFaint));
  table.add_row(std::move(titles));
  for (const Holder& holder : reclaimable.holders) {
    const std::string posted =
        holder.quiet_ns ? duration_text(holder.quiet_ns) + tr(" ago") : std::string(kUnknown);
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
    page.paragraph(Line("  "), trf("process {} has ended and left its page behind: {}", dead.pid,
                                   printable(dead.command)));
  }
}

void add_notes(const watch::Reclaimable& reclaimable, Page& page) {
  for (const std::string& note : reclaimable.notes)
    page.paragraph(Line(tr("note: "), Style::kFaint), printable(note), Style::kFaint);
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
    return tr(
        "No process can be asked: programs that open a vram.Board() can (docs/measure.md), if "
        "they "
        "run "
        "as your user.");
  return trf("No process was asked. 'vram free --all' asks for {}, 'vram free PID' one process.",
             format_bytes(sum));
}

std::string answer_text(const TrimAnswer& answer) {
  if (answer.outcome == TrimOutcome::kAnswered)
    return answer.bytes ? "" : tr("it can't tell how much came back");
  if (answer.outcome == TrimOutcome::kRefused) return printable(answer.why);
  return std::string(tr(kOutcomes.at(static_cast<size_t>(answer.outcome)).second));
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
  page.paragraph(Line(), answers.empty()
                             ? tr("No process was asked: none that can be asked caches anything.")
                             : trf("{} came back; {} of {} answered.",
                                   format_bytes(watch::sum_of(answers)), answered, answers.size()));
  if (swept > 0) page.paragraph(Line(), trf("Pages of dead processes removed: {}.", swept));
  add_notes(reclaimable, page);
  return page.finish();
}

namespace {

Json json_posted(const std::vector<watch::PostedDevice>& posted) {
  Json json = Json::array();
  for (const watch::PostedDevice& device : posted) {
    json.push_back({{"device", json_or_null(device.index)},
                    {"number", device.number},
                    {"allocated_bytes", json_or_null(device.figures.allocated_bytes)},
                    {"reserved_bytes", json_or_null(device.figures.reserved_bytes)},
                    {"cached_bytes", json_or_null(device.figures.cached_bytes)}});
  }
  return json;
}

Json json_holder(const watch::Holder& holder) {
  return {{"pid", holder.facts.pid},
          {"user", json_text_or_null(holder.facts.user)},
          {"command", json_text_or_null(holder.facts.command)},
          {"held_bytes", json_or_null(holder.held_bytes)},
          {"cached_bytes", json_or_null(holder.cached_bytes())},
          {"step", json_or_null(holder.step)},
          {"quiet_ns", json_or_null(holder.quiet_ns)},
          {"can_be_asked", holder.can_be_asked()},
          {"is_idle", holder.is_idle},
          {"is_gone", holder.is_gone},
          {"devices", json_posted(holder.posted)}};
}

Json json_dead(const std::vector<watch::DeadPage>& pages) {
  Json json = Json::array();
  for (const watch::DeadPage& page : pages) {
    json.push_back({{"pid", page.pid},
                    {"folder", json_text(page.folder)},
                    {"command", json_text_or_null(page.command)}});
  }
  return json;
}

Json json_answers(std::span<const watch::TrimAnswer> answers) {
  Json json = Json::array();
  for (const watch::TrimAnswer& answer : answers) {
    json.push_back({{"pid", answer.pid},
                    {"outcome", name_of(answer.outcome)},
                    {"freed_bytes", json_or_null(answer.bytes)},
                    {"why", json_text_or_null(answer.why)}});
  }
  return json;
}

}  // namespace

std::string free_json(const watch::Reclaimable& reclaimable,
                      std::span<const watch::TrimAnswer> answers, size_t swept) {
  Json processes = Json::array();
  for (const watch::Holder& holder : reclaimable.holders) processes.push_back(json_holder(holder));
  Json notes = Json::array();
  for (const std::string& note : reclaimable.notes) notes.push_back(json_text(note));
  Json document = {{"schema", "vram.free/1"},
                   {"time_unix_ns", reclaimable.time_ns == 0 ? Json() : Json(reclaimable.time_ns)},
                   {"host", json_text_or_null(reclaimable.host)},
                   {"freed_bytes", watch::sum_of(answers)},
                   {"pages_removed", swept}};
  document["processes"] = std::move(processes);
  document["dead_pages"] = json_dead(reclaimable.dead);
  document["answers"] = json_answers(answers);
  document["notes"] = std::move(notes);
  return document.dump(2, ' ', true) + "\n";
}

}  // namespace vram::show
