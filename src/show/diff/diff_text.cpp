#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/diff/diff.hpp"
#include "show/draw/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace vram::show {
namespace {

using explain::ChangeKind;
using explain::DeviceChange;
using explain::DevicePeak;
using explain::Diff;
using explain::SiteBasis;
using explain::SiteChange;

std::string bytes_or_dash(const std::optional<explain::SideDevice>& device,
                          uint64_t DevicePeak::* member) {
  return device ? format_bytes(device->peak.*member) : "-";
}

std::string count_or_dash(const std::optional<explain::SideDevice>& device) {
  return device ? format_count(device->peak.steps) : "-";
}

Style style_of(const DeviceChange& change) {
  if (change.is_regression()) return Style::kBad;
  return change.b_bytes() > change.a_bytes() ? Style::kStrong : Style::kPlain;
}

std::string verdict_of(const DeviceChange& change) {
  if (change.is_regression()) return std::string(phrase(change.regression));
  if (!change.b) return tr("only in A");
  return change.a ? "" : tr("only in B");
}

// "3 runs ± 2 MiB", by the side with more runs.
std::string runs_of(const DeviceChange& change) {
  const uint64_t a = change.a ? change.a->runs : 0;
  const uint64_t b = change.b ? change.b->runs : 0;
  if (std::max(a, b) <= 1) return "";
  const uint64_t mad =
      std::max(change.a ? change.a->mad_bytes : 0, change.b ? change.b->mad_bytes : 0);
  return fmt::format("{}/{} ± {}", a, b, format_bytes(mad));
}

Line arrow(const std::string& a, const std::string& b) {
  Line line(a, Style::kFaint);
  return line.add(" → ", Style::kFaint).add(b);
}

void draw_devices(const Diff& diff, Page& page) {
  page.heading(tr("PEAKS"),
               fmt::format("A {}, B {}", printable(diff.a_name), printable(diff.b_name)));
  Table table({{},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {Align::kRight},
               {.align = Align::kRight, .may_go = true},
               {.align = Align::kRight, .may_go = true},
               {.align = Align::kRight, .may_go = true},
               {}});
  const bool has_runs =
      std::ranges::any_of(diff.devices, [](const auto& c) { return !runs_of(c).empty(); });
  std::vector<Line> titles;
  for (const char* title : {tr("device"), "A", "B", tr("change"), "", tr("reserved"), tr("steps")})
    titles.emplace_back(title, Style::kFaint);
  titles.emplace_back(has_runs ? tr("runs A/B") : "", Style::kFaint);
  table.add_row(std::move(titles));
  const size_t top = page.options().top.value_or(kDefaultRows);
  const size_t shown = top == 0 ? diff.devices.size() : std::min(top, diff.devices.size());
  for (size_t i = 0; i < shown; ++i) {
    const DeviceChange& change = diff.devices[i];
    const uint64_t a = change.a_bytes();
    const uint64_t b = change.b_bytes();
    table.add_row({Line(explain::device_text(change.latest())),
                   Line(bytes_or_dash(change.a, &DevicePeak::requested_bytes)),
                   Line(bytes_or_dash(change.b, &DevicePeak::requested_bytes)),
                   Line(format_bytes_signed(explain::growth(a, b)), style_of(change)),
                   Line(relative_growth(a, b)),
                   arrow(bytes_or_dash(change.a, &DevicePeak::reserved_bytes),
                         bytes_or_dash(change.b, &DevicePeak::reserved_bytes)),
                   arrow(count_or_dash(change.a), count_or_dash(change.b)), Line(runs_of(change)),
                   Line(verdict_of(change), style_of(change))});
  }
  page.add(table.draw(2, page.columns()));
  if (shown < diff.devices.size())
    page.add(Line(trf("  and {} with less growth", counted(diff.devices.size() - shown, "device")),
                  Style::kFaint));
}

// A leak looks like a larger peak in the longer recording.
void draw_step_note(const DeviceChange& change, Page& page) {
  if (!change.a || !change.b || change.a_bytes() == change.b_bytes()) return;
  const uint64_t a = change.a->peak.steps;
  const uint64_t b = change.b->peak.steps;
  if (a == b || a == 0 || b == 0) return;
  page.paragraph(Line("  "),
                 trf("A has {} and B {}: what grows from step to step differs by that alone",
                     counted(a, "step"), format_count(b)),
                 Style::kFaint);
}

std::string_view basis_text(SiteBasis basis) {
  switch (basis) {
    case SiteBasis::kStack:
      return tr("by line of your code");
    case SiteBasis::kName:
      return tr("by name");
    case SiteBasis::kPosition:
      return tr("by the order of allocations, since no stacks or names were recorded");
  }
  return "";
}

Style style_of(ChangeKind kind) {
  return kind == ChangeKind::kGrown || kind == ChangeKind::kNew ? Style::kWarning : Style::kGood;
}

// What A called it, if it is now in another file or function.
std::string former_name(const SiteChange& site) {
  if (!site.a || !site.b || site.a->calls.empty() || site.b->calls.empty()) return "";
  const explain::Frame& a = site.a->calls.front();
  const explain::Frame& b = site.b->calls.front();
  const auto base = [](const std::string& path) {
    return path.substr(path.find_last_of("/\\") + 1);
  };
  if (a.function == b.function && base(a.file) == base(b.file)) return "";
  return fmt::format("(A: {})", printable(site.a->name));
}

void draw_sites(const DeviceChange& change, Page& page) {
  const std::string device = explain::device_text(change.latest());
  if (!change.basis) {
    page.heading(tr("SITES"),
                 trf("of {}: not compared, since A and B have neither stacks nor names "
                     "in common; record both in the same way",
                     device));
    return;
  }
  page.heading(tr("SITES"), trf("of {} at the peak, {}", device, basis_text(*change.basis)));
  Table table({{},
               {Align::kRight},
               {Align::kRight},
               {.align = Align::kRight, .may_go = true},
               {Align::kLeft, Shrink::kFront},
               {.shrink = Shrink::kEnd, .may_go = true}});
  std::vector<Line> titles;
  for (const char* title : {"", tr("change"), tr("bytes"), tr("blocks"), tr("site")})
    titles.emplace_back(title, Style::kFaint);
  table.add_row(std::move(titles));
  const size_t top = page.options().top.value_or(kDefaultRows);
  size_t changed = 0;
  size_t shown = 0;
  int64_t rest = 0;
  for (const SiteChange& site : change.sites) {
    const ChangeKind kind = kind_of(site);
    if (kind == ChangeKind::kSame) continue;
    const int64_t bytes = explain::growth(site.a_bytes(), site.b_bytes());
    ++changed;
    if (top != 0 && shown == top) {
      rest += bytes;
      continue;
    }
    ++shown;
    const auto count = [](const auto& one) { return one ? format_count(one->count) : "-"; };
    table.add_row({Line(tr(identifier(kind)), style_of(kind)),
                   Line(format_bytes_signed(bytes), Style::kStrong),
                   arrow(site.a ? format_bytes(site.a_bytes()) : "-",
                         site.b ? format_bytes(site.b_bytes()) : "-"),
                   arrow(count(site.a), count(site.b)), Line(printable(site.latest().name)),
                   Line(former_name(site), Style::kFaint)});
  }
  if (changed == 0) return page.add(Line(tr("  none changed"), Style::kFaint));
  page.add(table.draw(2, page.columns()));
  std::string summary = trf("  {} unchanged", counted(change.sites.size() - changed, "site"));
  if (shown < changed)
    summary = trf("  {} more changed, {} in sum;{}", changed - shown, format_bytes_signed(rest),
                  summary.substr(1));
  page.add(Line(summary, Style::kFaint));
}

void draw_result(const Diff& diff, Page& page) {
  if (!diff.limit) return page.heading(tr("RESULT"), tr("no limit was given (--fail-above)"));
  const auto bad = std::ranges::count_if(diff.devices, &DeviceChange::is_regression);
  const std::vector<std::string> missing = explain::unjudged_devices(diff);
  if (bad == 0 && !missing.empty()) {
    page.heading(tr("RESULT"), trf("the limit of {} cannot be judged: B lacks {}",
                                   limit_text(*diff.limit), fmt::join(missing, ", ")));
    return;
  }
  if (bad == 0) {
    page.heading(tr("RESULT"), trf("within the limit of {}", limit_text(*diff.limit)));
    return;
  }
  page.heading(tr("RESULT"),
               trf("regression on {} of {}", bad, counted(diff.devices.size(), "device")));
  size_t left = kDefaultRows;
  for (const DeviceChange& change : diff.devices)
    if (change.is_regression() && left-- > 0)
      page.paragraph(Line("  "), sentence(change), Style::kBad);
}

}  // namespace

std::string draw_diff(const Diff& diff, const TextOptions& options) {
  Page page(options);
  draw_devices(diff, page);
  for (const std::string& remark : diff.incomplete)
    page.paragraph(Line(tr("  incomplete: "), Style::kWarning), printable(remark));
  // Ranks usually change alike: the one that grew most stands for them.
  if (!diff.devices.empty()) {
    draw_step_note(diff.devices.front(), page);
    draw_sites(diff.devices.front(), page);
  }
  draw_result(diff, page);
  return page.finish();
}

}  // namespace vram::show
