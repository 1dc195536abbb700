#include "show/report/breakdown.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/draw/page.hpp"
#include "show/draw/plot.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace vram::show {
namespace {

using explain::Breakdown;
using explain::Dimension;
using explain::Holder;
using explain::State;

// Wide screens have room for long bars.
int bar_columns(const Page& page) { return std::clamp((page.columns() - 60) / 2, 8, 30); }

const Breakdown* find(const State& state, Dimension dimension) {
  const auto found = std::ranges::find(state.breakdowns, dimension, &Breakdown::by);
  return found == state.breakdowns.end() ? nullptr : &*found;
}

// A single holder that stands for everything says nothing.
bool distinguishes_holders(const Breakdown* breakdown) {
  return breakdown != nullptr && breakdown->holders.size() > 1;
}

double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Holder sum_of(std::span<const Holder> holders) {
  Holder sum;
  for (const Holder& holder : holders) {
    sum.requested_bytes += holder.requested_bytes;
    sum.count += holder.count;
  }
  sum.name = counted(holders.size(), "other");
  return sum;
}

void add_holder(const Holder& holder, Dimension by, uint64_t whole, Style style, const Page& page,
                Table& table) {
  const double share = share_of(holder.requested_bytes, whole);
  const std::string bar = page.options().bars ? share_bar(share, bar_columns(page)) : "";
  table.add_row({Line(format_bytes(holder.requested_bytes), style),
                 Line(format_share(holder.requested_bytes, whole)), Line(bar, Style::kActive),
                 Line(holder_text(by, holder.name), style),
                 Line(counted(holder.count, "block"), Style::kFaint)});
}

void draw_table(const Breakdown& breakdown, uint64_t whole, size_t limit, Page& page) {
  Table table(
      {{Align::kRight}, {Align::kRight}, {}, {Align::kLeft, Shrink::kFront}, {Align::kRight}});
  const std::span<const Holder> holders = breakdown.holders;
  // One row for the rest, unless the rest is one row anyway.
  const size_t shown =
      holders.size() - std::min(holders.size(), limit) <= 1 ? holders.size() : limit;
  if (shown < std::min(holders.size(), kDefaultRows))
    page.leave_out(counted(std::min(holders.size(), kDefaultRows) - shown, "holder"));
  for (const Holder& holder : holders.first(shown)) {
    add_holder(holder, breakdown.by, whole, Style::kPlain, page, table);
  }
  if (shown < holders.size()) {
    add_holder(sum_of(holders.subspan(shown)), breakdown.by, whole, Style::kFaint, page, table);
  }
  page.add(table.draw(2, page.columns()));
}

std::string holder_share(const Holder& holder, Dimension by, uint64_t whole) {
  return fmt::format("{} {}", holder_text(by, holder.name),
                     format_share(holder.requested_bytes, whole));
}

// As many holders as fit in one line, and how many more there are.
void draw_line(const Breakdown& breakdown, uint64_t whole, Page& page) {
  Line line("  ");
  line.add(phrase(breakdown.by), Style::kFaint).pad_to(13);
  constexpr int kRoomForMore = 12;
  size_t shown = 0;
  for (const Holder& holder : breakdown.holders) {
    const std::string text = (shown > 0 ? " · " : "") + holder_share(holder, breakdown.by, whole);
    const bool last = shown + 1 == breakdown.holders.size();
    if (line.width() + display_width(text) + (last ? 0 : kRoomForMore) > page.columns()) break;
    line.add(text);
    ++shown;
  }
  const size_t more = breakdown.holders.size() - shown;
  if (more > 0) line.add(trf("{}{} more", shown > 0 ? " · " : "", more), Style::kFaint);
  page.add(std::move(line));
}

}  // namespace

const Breakdown* main_breakdown(const State& state, bool has_stacks) {
  const Breakdown* best =
      find(state, has_stacks || state.named_bytes ? Dimension::kUserFrame : Dimension::kSize);
  if (best != nullptr) return best;
  return state.breakdowns.empty() ? nullptr : &state.breakdowns.front();
}

std::string_view phrase_of(const Breakdown& breakdown, const State& state, bool has_stacks) {
  if (breakdown.by != Dimension::kUserFrame || !state.named_bytes) return phrase(breakdown.by);
  if (*state.named_bytes == 0) return has_stacks ? phrase(breakdown.by) : tr("by scope");
  return has_stacks ? tr("by name, else by line of your code") : tr("by name");
}

// Not where all is "other".
bool explains_what(const Breakdown& categories) {
  return std::ranges::any_of(categories.holders,
                             [](const Holder& holder) { return holder.name != "other"; });
}

void draw_categories(const State& state, const Detail& detail, Page& page) {
  const Breakdown* categories = find(state, Dimension::kCategory);
  if (categories == nullptr || !explains_what(*categories)) return;
  if (detail.categories == 0) return page.leave_out(tr("categories"));
  const uint64_t whole = state.moment.totals.requested_bytes;
  page.heading(tr("CATEGORIES"), trf("of the {} requested at the peak; {} named by the program",
                                     format_bytes(whole), format_share(*state.named_bytes, whole)));
  draw_table(*categories, whole, detail.categories, page);
}

void draw_breakdowns(const State& state, bool has_stacks, const Detail& detail, Page& page) {
  const Breakdown* main = main_breakdown(state, has_stacks);
  if (main == nullptr) return;
  const uint64_t whole = state.moment.totals.requested_bytes;
  draw_table(*main, whole, detail.holders, page);
  static constexpr std::array kOthers = {Dimension::kOperator, Dimension::kScope, Dimension::kAge,
                                         Dimension::kStream, Dimension::kPool};
  for (const Dimension dimension : kOthers) {
    const Breakdown* other = find(state, dimension);
    if (other == main || !distinguishes_holders(other)) continue;
    if (detail.has_shares)
      draw_line(*other, whole, page);
    else
      page.leave_out(tr("holders ") + std::string(phrase(dimension)));
  }
}

}  // namespace vram::show
