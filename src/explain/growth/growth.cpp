// size: one search, whose parts judge the same groups again
#include "explain/growth/growth.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/time.hpp"
#include "explain/growth/births.hpp"
#include "explain/growth/growth_extended.hpp"
#include "explain/growth/growth_group.hpp"
#include "explain/growth/growth_join.hpp"
#include "explain/growth/lives.hpp"
#include "explain/moment/curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace vram::explain {
namespace {

constexpr uint64_t kMinSteadySteps = 5;
// Those with most bytes: each costs a pass over its births, and the test all pairs of ends.
constexpr size_t kMaxCandidates = 500;
constexpr size_t kMaxTrends = 2000;
constexpr double kFading = 0.05;       // probability of what was seen had births not faded
constexpr double kEnded = 0.001;       // ... however well a lasting rate explains those before
constexpr uint32_t kEndedRhythm = 2;   // births that are missing at the end; one may be late
constexpr double kMaxSameFate = 0.01;  // probability of what was seen if freed blocks are no others
constexpr uint32_t kBoundaryMoves = 1;  // steps, of where a boundary is
constexpr double kMinFreedShare = 0.5;
constexpr size_t kStayingPerException = 20;

using Group = GrowthGroup;
using Window = GrowthWindow;

class GrowthFinder {
 public:
  GrowthFinder(const trace::Trace& trace, const trace::DeviceTrace& device, const History& history,
               const Steps& steps, int64_t origin_ns, const Names& names)
      : trace_(trace),
        events_(trace.events_of(device)),
        history_(history),
        names_(names),
        frames_(trace.tables),
        steps_(steps.steps),
        window_{static_cast<uint32_t>(steps.warmup_count),
                static_cast<uint32_t>(steps.steps.size())},
        origin_ns_(origin_ns) {
    for (const Step& step : steps.steps)
      peak_bytes_ = std::max(peak_bytes_, step.peak_requested_bytes);
    holdovers_ = find_holdovers(history, steps.steps, &frames_);
  }

  GrowthResult run() {
    if (!steps_free()) return {LeakVerdict::kMostlyKept, {}};
    measure_longest();
    std::vector<Group> groups = groups_by_site();
    std::vector<Group> leaks = take_leaks(&groups);
    for (const Part part :
         {Part::kOutliving, Part::kSize, Part::kToEnd, Part::kFromBegin, Part::kPower}) {
      std::vector<Group> parts = parts_of(groups, part);
      std::vector<Group> found = take_leaks(&parts);
      leave_out(found, &groups);
      std::ranges::move(found, std::back_inserter(leaks));
    }
    GrowthResult result;
    GrowthJoiner joiner(trace_.tables, history_, holdovers_.sites, window_, &frames_);
    for (const Group& g : joiner.joined(std::move(leaks), &groups))
      result.sites.push_back(described(GrowthKind::kLeak, g));
    add_extended(&groups, &result.sites);
    add_other_growth(std::move(groups), &result.sites);
    std::stable_sort(result.sites.begin(), result.sites.end(),
                     [](const Growth& a, const Growth& b) {
                       if ((a.kind == GrowthKind::kLeak) != (b.kind == GrowthKind::kLeak))
                         return a.kind == GrowthKind::kLeak;
                       if (a.kind == GrowthKind::kLeak) return a.bytes_per_step > b.bytes_per_step;
                       return a.live_bytes > b.live_bytes;
                     });
    return result;
  }

 private:
  // Does most of what the steady steps allocate die soon? What only ever allocates, like a model
  // that is loaded, does not leak.
  bool steps_free() const {
    const Step& first = steps_[window_.warmup];
    const Step& last = steps_[window_.steps - kOutlivedEnds];
    const uint64_t end = last.first_event + last.event_count;
    uint64_t born = 0;
    for (const Lifetime& l : history_.lifetimes) {
      if (l.alloc_event != kBeforeRecording && l.alloc_event >= first.first_event &&
          l.alloc_event < end)
        born += l.requested_bytes;
    }
    uint64_t outlived = 0;
    for (const Holdover& s : holdovers_.blocks) {
      if (!s.from_setup && s.survives() && s.birth >= window_.warmup) outlived += s.bytes;
    }
    return static_cast<double>(born - std::min(outlived, born)) >=
           kMinFreedShare * static_cast<double>(born);
  }

  std::vector<Group> groups_by_site() {
    std::vector<Group> groups;
    for (size_t i = 0; i < holdovers_.blocks.size(); ++i) {
      const Holdover& s = holdovers_.blocks[i];
      if (i == 0 || holdovers_.blocks[i - 1].site != s.site) groups.emplace_back();
      groups.back().blocks.push_back(s);
    }
    for (Group& g : groups) count_births(window_, &g);
    return groups;
  }

  // The blocks of a site that is no leak are judged again: those that outlive every block of the
  // site that was freed, since others have the same size or line; the sizes of a line that makes
  // more than one kind of block; and blocks without a stack by their position in the step, among
  // those of the same size or, since tensors may change their shape, among all; and by powers of
  // two.
  enum class Part { kOutliving, kSize, kToEnd, kFromBegin, kPower };

  std::vector<Group> parts_of(const std::vector<Group>& groups, Part part) {
    using Key = std::tuple<uint64_t, uint64_t>;
    std::map<Key, Group> parts;
    for (const Group& g : groups) {
      const GrowthSite& site = holdovers_.sites[g.blocks.front().site];
      const bool is_of_lines = part == Part::kSize || part == Part::kOutliving;
      if (g.alive_bytes == 0 || (site.frame != 0 && !is_of_lines)) continue;
      if (site.frame == 0 && part == Part::kSize) continue;
      for (const Holdover& b : g.blocks) {
        Key key = {b.site, 0};
        if (part == Part::kSize) key = {b.site, b.bytes};
        if (part == Part::kToEnd) key = {site.stream, b.to_end};
        if (part == Part::kFromBegin) key = {site.stream, b.from_begin};
        if (part == Part::kPower) key = {site.stream, std::bit_width(b.bytes)};
        if (b.from_setup && (part == Part::kToEnd || part == Part::kFromBegin)) continue;
        Group& into = parts[key];
        into.blocks.push_back(b);
        const bool has_outlived = part == Part::kOutliving || part == Part::kPower;
        if (has_outlived) into.outlived = std::max(into.outlived, longest_[b.site] + 1);
      }
    }
    std::vector<Group> result;
    result.reserve(parts.size());
    for (auto& [key, g] : parts) {
      count_births(window_, &g);
      result.push_back(std::move(g));
    }
    return result;
  }

  // Of each site: the ends that the longest-lived block outlived among those that were freed. One
  // of them for kStayingPerException blocks that stay is an exception: another block of that size.
  void measure_longest() {
    longest_.resize(holdovers_.sites.size());
    std::vector<uint32_t> ages;
    size_t staying = 0;
    for (size_t i = 0; i < holdovers_.blocks.size(); ++i) {
      const Holdover& b = holdovers_.blocks[i];
      if (!b.from_setup && b.death < window_.steps) ages.push_back(b.death - b.birth);
      if (!b.from_setup && b.death == window_.steps) ++staying;
      const bool is_last =
          i + 1 == holdovers_.blocks.size() || holdovers_.blocks[i + 1].site != b.site;
      if (!is_last) continue;
      std::ranges::sort(ages, std::greater());
      const size_t exceptions = staying / kStayingPerException;
      longest_[b.site] = exceptions < ages.size() ? ages[exceptions] : 0;
      ages.clear();
      staying = 0;
    }
  }

  // Moves the leaks out of `groups`. Every site that can be asked about counts as tested, whatever
  // else speaks against it, and so do those of earlier calls. Which sites can be asked does not
  // depend on the order of the steps, so that it does not prejudge the test (Bourgon et al. 2010).
  std::vector<Group> take_leaks(std::vector<Group>* groups) {
    const auto rest = std::stable_partition(groups->begin(), groups->end(), [](const Group& g) {
      return g.holdover_steps >= kMinBirthSteps;
    });
    std::vector<Group> tested(std::make_move_iterator(groups->begin()),
                              std::make_move_iterator(rest));
    groups->erase(groups->begin(), rest);
    std::stable_sort(tested.begin(), tested.end(), [](const Group& a, const Group& b) {
      return std::pair(is_testable(a), a.alive_bytes) > std::pair(is_testable(b), b.alive_bytes);
    });
    const std::vector<bool> rises = rising(tested);
    const std::vector<bool> lasts = lasting(&tested);
    std::vector<Group> leaks;
    for (size_t i = 0; i < tested.size(); ++i) {
      Group& g = tested[i];
      const bool leaks_on = i < lasts.size() && rises[i] && lasts[i] && survives(g) &&
                            is_oldest(g) && fading_of(window_, g) > kEnded &&
                            overdue_of(window_, g) == 0 && has_own_fate(g) && grows(g);
      if (leaks_on) drop_brief(&g);
      (leaks_on ? leaks : *groups).push_back(std::move(g));
    }
    return leaks;
  }

  // Live bytes at step ends rise: Mann–Kendall over all sites with holdovers.
  std::vector<bool> rising(std::vector<Group>& tested) {
    std::vector<Trend> trends;
    for (size_t i = 0; i < std::min(tested.size(), kMaxTrends); ++i)
      trends.push_back(tested[i].trend = trend_of(window_, tested[i]));
    trends_tested_ += tested.size() - trends.size();
    const std::vector<bool> result = rejected(trends, trends_tested_, kMaxFalseRises);
    trends_tested_ += static_cast<size_t>(std::ranges::count_if(
        trends, [](const Trend& t) { return t.least_p_value <= kMaxFalseRises; }));
    return result;
  }

  // Births last, more likely than those of a cache. Of the first groups only, which have most.
  std::vector<bool> lasting(std::vector<Group>* tested) {
    const auto end = std::ranges::find_if_not(*tested, is_testable);
    const auto count = static_cast<size_t>(end - tested->begin());
    sites_tested_ += count;
    std::vector<double> log_ratios;
    for (size_t i = 0; i < std::min(count, kMaxCandidates); ++i)
      log_ratios.push_back((*tested)[i].log_ratio = log_ratio_of(window_, (*tested)[i]));
    return discoveries(log_ratios, sites_tested_, kMaxFalseShare);
  }

  // Is its oldest block older than any of the same size or line became that was freed? A cache that
  // is emptied now and then, or a window of the last outputs, has young blocks only.
  bool is_oldest(const Group& g) const {
    return std::ranges::any_of(g.blocks, [&](const Holdover& b) {
      return b.death == window_.steps && !b.from_setup &&
             b.death - b.birth > longest_[b.site] + kBoundaryMoves;
    });
  }

  // Where blocks live for any length of time, some are old: does more speak for the oldest ones?
  // Without stacks all blocks of the same size count, at whichever position they were made.
  bool has_own_fate(const Group& g) const {
    std::vector<Life> lives;
    size_t freed = 0;
    const auto add = [&](const Holdover& b) {
      if (b.from_setup || !b.survives()) return;
      const bool is_alive = b.death == window_.steps;
      lives.push_back({b.death - b.birth, is_alive ? Life::kAlive : b.death, longest_[b.site]});
      freed += is_alive ? 0 : 1;
    };
    if (holdovers_.sites[g.blocks.front().site].frame != 0) {
      std::ranges::for_each(g.blocks, add);
    } else {
      std::set<uint32_t> sites;
      for (const Holdover& b : g.blocks) sites.insert(b.site);
      for (const uint32_t site : sites)
        std::ranges::for_each(
            std::ranges::equal_range(holdovers_.blocks, site, {}, &Holdover::site), add);
    }
    const auto all = static_cast<double>(lives.size());
    if (static_cast<double>(freed) <= (1 - kMinSurvival) * all) return true;
    return same_fate_probability(lives, kOutlivedEnds) <= kMaxSameFate;
  }

  bool grows(const Group& g) const {
    const Slope slope = slope_of(window_, g);
    return slope.median >= kMinSlopeBytes && slope.low > 0;
  }

  // Leaks that were found among the blocks of other groups are no longer theirs.
  void leave_out(const std::vector<Group>& leaks, std::vector<Group>* groups) {
    std::unordered_set<uint32_t> taken;
    std::unordered_set<uint32_t> sites;
    for (const Group& leak : leaks) {
      for (const Holdover& b : leak.blocks) {
        taken.insert(b.lifetime);
        sites.insert(b.site);
      }
    }
    if (taken.empty()) return;
    for (Group& g : *groups) {
      if (!sites.contains(g.blocks.front().site)) continue;
      std::erase_if(g.blocks, [&](const Holdover& b) { return taken.contains(b.lifetime); });
      count_births(window_, &g);
    }
    std::erase_if(*groups, [](const Group& g) { return g.blocks.empty(); });
  }

  // Tensors that are replaced by larger ones.
  void add_extended(std::vector<Group>* groups, std::vector<Growth>* found) {
    const auto min_bytes =
        static_cast<uint64_t>(kMinReportedShare * static_cast<double>(peak_bytes_));
    for (const Group& g :
         extended_without_stacks(history_, window_, holdovers_.sites, *groups, min_bytes))
      found->push_back(described(GrowthKind::kUndecided, g));
    for (Group& g : *groups) {
      if (holdovers_.sites[g.blocks.front().site].frame != 0 &&
          is_extended(history_, window_, &g, min_bytes))
        found->push_back(described(GrowthKind::kUndecided, g));
    }
  }

  // Growth that is no leak is reported by what it is, all sizes together; the blocks of a frame
  // stay together.
  void add_other_growth(std::vector<Group> groups, std::vector<Growth>* found) {
    std::map<std::pair<GrowthKind, uint32_t>, Group> unframed;
    const auto add = [&](GrowthKind kind, const Group& g) {
      const uint64_t bytes = g.alive_bytes + g.early_bytes;
      if (static_cast<double>(bytes) >= kMinReportedShare * static_cast<double>(peak_bytes_))
        found->push_back(described(kind, g));
    };
    for (Group& g : groups) {
      if (g.alive_bytes + g.early_bytes == 0) continue;
      drop_brief(&g);
      const GrowthKind kind = kind_of(g);
      if (holdovers_.sites[g.blocks.front().site].frame != 0) {
        add(kind, g);
        continue;
      }
      const uint32_t birth = g.births.empty() ? g.early_births.front() : g.births.front();
      Group& all = unframed[{kind, kind == GrowthKind::kOneOff ? birth : 0}];
      all.log_ratio = all.blocks.empty() ? g.log_ratio : std::max(all.log_ratio, g.log_ratio);
      all.blocks.insert(all.blocks.end(), g.blocks.begin(), g.blocks.end());
    }
    for (auto& [key, g] : unframed) {
      count_births(window_, &g);
      add(key.first, g);
    }
  }

  GrowthKind kind_of(const Group& g) const {
    if (g.births.size() + (g.early_bytes > 0 ? 1 : 0) <= 2) return GrowthKind::kOneOff;
    const bool ends =
        !survives(g) || fading_of(window_, g) <= kFading || overdue_of(window_, g) >= kEndedRhythm;
    return ends ? GrowthKind::kBoundedCache : GrowthKind::kUndecided;
  }

  // The name that all have, or the category: "" where neither is one.
  std::string called_by_program(const Group& g) {
    const uint32_t first = g.blocks.front().lifetime;
    const auto all_have = [&](auto what) {
      return std::ranges::all_of(g.blocks, [&](const Holdover& s) {
        return (names_.*what)(s.lifetime) == (names_.*what)(first);
      });
    };
    if (names_.label(first) == 0) return "";
    if (all_have(&Names::label)) return names_.text(names_.label(first));
    const Category category = names_.category(first);
    if (category == Category::kOther || !all_have(&Names::category)) return "";
    return std::string(to_string(category));
  }

  std::string line_of(const Group& g) const {
    const trace::FrameId own = holdovers_.sites[g.blocks.front().site].frame;
    const trace::FrameId frame = g.lead_frame != 0 ? g.lead_frame : own;
    return frame == 0 ? "" : frame_name(trace_.tables, trace_.tables.frames[frame]);
  }

  std::string name_of(const Group& g) {
    if (std::string line = line_of(g); !line.empty()) {
      if (g.other_sites == 0) return line;
      return trf("{} and {} other {}", line, g.other_sites,
                 g.other_sites == 1 ? tr("line") : tr("lines"));
    }
    if (const std::string called = called_by_program(g); !called.empty()) return called;
    std::vector<uint64_t> sizes;
    sizes.reserve(g.blocks.size());
    for (const Holdover& s : g.blocks) sizes.push_back(s.bytes);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    if (sizes.size() == 1) return trf("{} blocks", format_bytes(sizes.front()));
    return trf("blocks of {} sizes, {} to {}", sizes.size(), format_bytes(sizes.front()),
               format_bytes(sizes.back()));
  }

  // The stack of the largest block that is still alive.
  std::vector<Frame> typical_stack(const Group& g) {
    const Holdover* largest = nullptr;
    for (const Holdover& s : g.blocks) {
      if (s.death == window_.steps && !s.from_setup &&
          (largest == nullptr || s.bytes > largest->bytes))
        largest = &s;
    }
    return largest == nullptr
               ? std::vector<Frame>{}
               : report_stack(trace_.tables, history_.lifetimes[largest->lifetime].stack,
                              stacks_room_bytes_);
  }

  Growth described(GrowthKind kind, const Group& g) {
    Growth growth;
    growth.kind = kind;
    growth.site = name_of(g);
    growth.line = line_of(g);
    growth.stack = typical_stack(g);
    if (kind != GrowthKind::kOneOff) {
      const Slope slope = slope_of(window_, g);
      growth.bytes_per_step = slope.median;
      growth.bytes_per_step_low = slope.low;
      growth.bytes_per_step_high = slope.high;
    }
    if (kind == GrowthKind::kLeak) {
      growth.bytes_per_step = rate_of(window_, g);
      growth.bytes_per_step_low =
          std::min(growth.bytes_per_step_low, std::floor(growth.bytes_per_step));
      growth.bytes_per_step_high =
          std::max(growth.bytes_per_step_high, std::ceil(growth.bytes_per_step));
      growth.rise_p_value = g.trend.p_value;
    }
    const std::vector<uint32_t>& first = g.early_births.empty() ? g.births : g.early_births;
    if (!first.empty()) growth.since_step = first.front();
    growth.birth_steps = g.births.size() + (g.early_bytes > 0 ? 1 : 0);
    growth.steady_steps = window_.steps - window_.warmup;
    growth.log10_lasting_ratio = g.log_ratio / std::numbers::ln10;
    growth.sites_tested = sites_tested_;
    uint32_t oldest = 0xffffffff;
    for (const Holdover& s : g.blocks) {
      if (s.death != window_.steps || s.from_setup) continue;
      growth.live_bytes += s.bytes;
      ++growth.live_count;
      oldest = std::min(oldest, history_.lifetimes[s.lifetime].alloc_event);
    }
    if (oldest < events_.size()) {
      growth.oldest_ns =
          trace_.has_time ? nanoseconds_between(origin_ns_, events_[oldest].time_ns) : oldest;
    }
    return growth;
  }

  const trace::Trace& trace_;
  std::span<const trace::Event> events_;
  const History& history_;
  const Names& names_;
  UserFrames frames_;
  std::span<const Step> steps_;
  Window window_;
  int64_t origin_ns_ = 0;
  size_t sites_tested_ = 0;   // for births that last
  size_t trends_tested_ = 0;  // for live bytes that rise
  uint64_t stacks_room_bytes_ = kMaxStacksBytes;
  uint64_t peak_bytes_ = 0;
  Holdovers holdovers_;
  std::vector<uint32_t> longest_;  // by site
};

}  // namespace

GrowthResult find_growth(const trace::Trace& trace, const trace::DeviceTrace& device,
                         const History& history, const Steps& steps, int64_t origin_ns,
                         const Names& names) {
  // Frees that follow from the reuse of an address do not count: they come whenever that happens.
  const auto frees = [](const trace::Event& event) {
    return event.kind == trace::EventKind::kFreeRequested ||
           event.kind == trace::EventKind::kFreeCompleted;
  };
  if (std::ranges::none_of(trace.events_of(device), frees)) return {LeakVerdict::kNoFrees, {}};
  if (steps.steps.empty()) return {LeakVerdict::kNoSteps, {}};
  if (steps.steps.size() < steps.warmup_count + kMinSteadySteps)
    return {LeakVerdict::kTooFewSteps, {}};
  return GrowthFinder(trace, device, history, steps, origin_ns, names).run();
}

}  // namespace vram::explain
