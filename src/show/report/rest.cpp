// The sections about what the recorded allocator does not hold, and about communication: as text
// and as JSON.
#include "base/bytes.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "show/names.hpp"
#include "show/report/report_json.hpp"
#include "show/report/report_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

namespace vram::show {
namespace {

using explain::MarkTotal;
using explain::Rest;
using explain::RestItem;
using explain::RestKind;

constexpr size_t kMarkRows = 8;

void add_row(int64_t bytes, const Rest& rest, std::string_view name, std::string_view basis,
             Style style, Table& table) {
  const auto share = bytes < 0 ? 0 : static_cast<uint64_t>(bytes);
  table.add_row({Line(bytes < 0 ? format_bytes_signed(bytes) : format_bytes(share), style),
                 Line(format_share(share, rest.total_bytes.value_or(rest.used_bytes))),
                 Line(printable(std::string(name)), style),
                 Line(printable(std::string(basis)), Style::kFaint)});
}

std::string mark_name(const MarkTotal& total) {
  const std::string name = printable(total.name);
  return total.group.empty() ? name : name + " · " + printable(total.group);
}

Json json_item(const RestItem& item) {
  return {{"kind", identifier(item.kind)},
          {"name", json_text(item.name)},
          {"bytes", item.bytes},
          {"basis", json_text(item.basis)}};
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

void draw_rest(const Subject& subject, Page& page) {
  if (!subject.device.rest) return;
  const Rest& rest = *subject.device.rest;
  if (!subject.detail.has_rest) return page.leave_out(tr("the device's memory by owner"));
  page.heading(
      tr("DEVICE"),
      trf("{} used{} at {}, by the driver's count", format_bytes(rest.used_bytes),
          rest.total_bytes ? trf(" of {}", format_bytes(*rest.total_bytes)) : std::string(),
          time_text(subject.report.clock, rest.time_ns)));
  Table table({{Align::kRight},
               {Align::kRight},
               {Align::kLeft, Shrink::kEnd},
               {.shrink = Shrink::kEnd, .may_go = true}});
  for (const RestItem& item : rest.items)
    add_row(item.bytes, rest, item.name, item.basis, Style::kPlain, table);
  add_row(rest.unnamed_bytes, rest, tr("unnamed"), tr("what is left"), Style::kFaint, table);
  page.add(table.draw(2, page.columns()));
  if (!rest.not_observed.empty())
    page.paragraph(Line("  "), trf("not observed: {}", fmt::join(rest.not_observed, tr("; "))),
                   Style::kFaint);
}

void draw_marks(const Subject& subject, Page& page) {
  const explain::Marks& marks = subject.device.marks;
  if (marks.totals.empty()) return;
  if (!subject.detail.has_marks) return page.leave_out(tr("collectives and copies"));
  const bool has_steps = marks.totals.front().step_count.has_value();
  page.heading(tr("COMMUNICATION"),
               has_steps ? tr("of a step, medians over the steady ones; times are "
                              "those of the calls on the host")
                         : tr("of the recording; times are those of the calls on the "
                              "host"));
  Table table({{Align::kLeft, Shrink::kFront}, {Align::kRight}, {Align::kRight}, {Align::kRight}});
  const std::span<const MarkTotal> totals = marks.totals;
  for (const MarkTotal& total : totals.first(std::min(totals.size(), kMarkRows))) {
    const uint64_t count = has_steps ? total.step_count.value_or(0) : total.count;
    table.add_row({Line(mark_name(total)), Line(counted(count, "call")),
                   Line(format_bytes(has_steps ? total.step_bytes.value_or(0) : total.bytes)),
                   Line(format_duration_ns(has_steps ? total.step_duration_ns.value_or(0)
                                                     : total.duration_ns))});
  }
  page.add(table.draw(2, page.columns()));
  if (totals.size() > kMarkRows)
    page.leave_out(trf("{} of collectives and copies", counted(totals.size() - kMarkRows, "kind")));
}

Json json_rest(const Rest& rest) {
  Json items = Json::array();
  for (const RestItem& item : rest.items) items.push_back(json_item(item));
  Json missing = Json::array();
  for (const std::string& text : rest.not_observed) missing.push_back(json_text(text));
  return {{"time_ns", rest.time_ns},
          {"samples", rest.sample_count},
          {"total_bytes", or_null(rest.total_bytes)},
          {"used_bytes", rest.used_bytes},
          {"items", std::move(items)},
          {"unnamed_bytes", rest.unnamed_bytes},
          {"not_observed", std::move(missing)}};
}

Json json_marks(const explain::Marks& marks) {
  Json totals = Json::array();
  for (const MarkTotal& total : marks.totals)
    totals.push_back({{"kind", trace::to_string(total.kind)},
                      {"name", json_text(total.name)},
                      {"group", json_text(total.group)},
                      {"count", total.count},
                      {"bytes", total.bytes},
                      {"duration_ns", total.duration_ns},
                      {"step_count", or_null(total.step_count)},
                      {"step_bytes", or_null(total.step_bytes)},
                      {"step_duration_ns", or_null(total.step_duration_ns)}});
  Json items = Json::array();
  for (const explain::MarkLine& line : marks.lines)
    items.push_back({{"time_ns", line.time_ns},
                     {"total", line.total},
                     {"bytes", line.bytes},
                     {"duration_ns", line.duration_ns},
                     {"step", or_null(line.step)}});
  return {{"count", marks.count}, {"totals", std::move(totals)}, {"items", std::move(items)}};
}

}  // namespace vram::show
