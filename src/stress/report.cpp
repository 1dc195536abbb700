#include "stress/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vram::stress {
namespace {

void compare_counts(std::string_view what, const std::optional<uint64_t>& before,
                    const std::optional<uint64_t>& after, bool is_error,
                    std::vector<Incident>& found) {
  if (!before || !after || *after <= *before) return;
  found.push_back({trf("{}: {} more (now {})", what, *after - *before, *after), is_error});
}

void compare_rows(const watch::Device& before, const watch::Device& after,
                  std::vector<Incident>& found) {
  const auto& rows = after.health.remapped_rows;
  if (!rows) return;
  const gpu::RemappedRows old = before.health.remapped_rows.value_or(*rows);
  compare_counts(tr("rows remapped after corrected errors"), old.corrected, rows->corrected, false,
                 found);
  compare_counts(tr("rows remapped after uncorrected errors"), old.uncorrected, rows->uncorrected,
                 true, found);
  if (rows->has_failed)
    found.push_back({tr("remapping a row has failed: have the GPU replaced"), true});
  if (rows->is_pending)
    found.push_back({tr("a row will be remapped at the next reset of the GPU"), false});
}

void compare_pages(const watch::Device& before, const watch::Device& after,
                   std::vector<Incident>& found) {
  const auto& pages = after.health.retired_pages;
  if (!pages) return;
  const gpu::RetiredPages old = before.health.retired_pages.value_or(*pages);
  compare_counts(tr("pages retired after corrected errors"), old.corrected, pages->corrected, false,
                 found);
  compare_counts(tr("pages retired after uncorrected errors"), old.uncorrected, pages->uncorrected,
                 true, found);
  compare_counts(tr("pages retired"), old.of_any_cause, pages->of_any_cause, true, found);
  if (pages->has_failed.value_or(false))
    found.push_back({tr("a bad page of the memory could not be retired"), true});
  if (pages->is_pending.value_or(false))
    found.push_back({tr("a page will be retired at the next reset of the GPU"), false});
}

void compare_xids(const watch::Device& before, const watch::Device& after,
                  std::vector<Incident>& found) {
  if (!after.xids) return;
  for (const watch::XidCount& xid : *after.xids) {
    uint64_t known = 0;
    for (const watch::XidCount& old : before.xids.value_or(std::vector<watch::XidCount>{})) {
      if (old.xid == xid.xid) known = old.count;
    }
    compare_counts(fmt::format("Xid {}", xid.xid), known, xid.count, true, found);
  }
}

}  // namespace

std::vector<Incident> incidents(const Health& health) {
  std::vector<Incident> found;
  if (!health.before || !health.after) return found;
  const watch::Device& before = *health.before;
  const watch::Device& after = *health.after;
  const auto& old_ecc = before.health.ecc_since_boot;
  const auto& new_ecc = after.health.ecc_since_boot;
  compare_counts(tr("uncorrected memory errors (ECC)"), old_ecc.uncorrected, new_ecc.uncorrected,
                 true, found);
  compare_counts(tr("corrected memory errors (ECC)"), old_ecc.corrected, new_ecc.corrected, false,
                 found);
  compare_rows(before, after, found);
  compare_pages(before, after, found);
  compare_xids(before, after, found);
  if (after.sample.trouble)
    found.push_back({tr("the GPU no longer answers: ") + *after.sample.trouble, true});
  return found;
}

Verdict StressReport::verdict() const {
  const auto happened = incidents(health);
  const bool has_errors = bad.count != 0 || !failures.empty() || storm.invalid ||
                          std::ranges::any_of(happened, &Incident::is_error);
  if (has_errors) return Verdict::kErrors;
  if (was_cut_short) return Verdict::kCutShort;
  return fill.compared_bytes == 0 ? Verdict::kUntested : Verdict::kPassed;
}

namespace {

// A clock that counts in steps and a machine that does other things: less is never a change.
constexpr double kMinNoise = 0.01;

double span_of(const Figure& figure) {
  if (figure.median == 0) return 0;
  return static_cast<double>(figure.three_quarters - figure.quarter) /
         static_cast<double>(figure.median);
}

// As std::hypot, which would ask for a C library of 2022.
double root_of_squares(double one, double other) { return std::sqrt(one * one + other * other); }

// What is worse when it is less; latencies are worse when they are more.
bool is_better_high(Unit unit) { return unit != Unit::kNanoseconds; }

Trend trend_of(const Change& change, double limit) {
  if (std::abs(change.worse) <= change.noise) return Trend::kSame;
  if (change.worse < 0) return Trend::kBetter;
  return change.worse > limit ? Trend::kFailing : Trend::kWorse;
}

Change change_of(const Figure& before, const Figure& after, double limit) {
  Change change{.name = after.name,
                .size_bytes = after.size_bytes,
                .unit = after.unit,
                .before = before.median,
                .after = after.median};
  const auto was = static_cast<double>(before.median);
  const double difference = static_cast<double>(after.median) - was;
  change.worse = (is_better_high(after.unit) ? -difference : difference) / was;
  change.noise = std::max(kMinNoise, root_of_squares(span_of(before), span_of(after)));
  change.trend = trend_of(change, limit);
  return change;
}

const Figure* find(const std::vector<Figure>& figures, const Figure& like) {
  const auto found = std::ranges::find_if(figures, [&](const Figure& figure) {
    return figure.name == like.name && figure.size_bytes == like.size_bytes &&
           figure.unit == like.unit;
  });
  return found == figures.end() ? nullptr : &*found;
}

std::string text_or_dash(const std::optional<std::string>& text) { return text.value_or("-"); }

}  // namespace

bool Comparison::is_failing() const {
  return std::ranges::any_of(changes,
                             [](const Change& change) { return change.trend == Trend::kFailing; });
}

Result<Comparison> compare(const StressReport& before, const StressReport& after, double limit) {
  if (!after.device.uuid || before.device.uuid != after.device.uuid) {
    return fail(Code::kBadInput,
                "expected a report of this GPU ({}), found one of {}: figures of different GPUs "
                "can't be compared",
                text_or_dash(after.device.uuid), text_or_dash(before.device.uuid));
  }
  Comparison comparison{.before_time_ns = before.time_ns, .limit = limit};
  for (const Figure& old : before.figures) {
    const Figure* const now = find(after.figures, old);
    if (now == nullptr) {
      comparison.not_measured.push_back(old.name);
    } else if (old.median != 0) {
      comparison.changes.push_back(change_of(old, *now, limit));
    }
  }
  std::ranges::sort(comparison.changes, std::ranges::greater(), &Change::worse);
  return comparison;
}

}  // namespace vram::stress
