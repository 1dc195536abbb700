#include "explain/growth/growth.hpp"

#include "base/bytes.hpp"
#include "explain/growth/growth_group.hpp"
#include "explain/moment/curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numbers>
#include <set>

namespace vram::explain {
namespace {

constexpr uint64_t kMinSteadySteps = 5;
// Those with most bytes: each costs a pass over its births.
constexpr size_t kMaxCandidates = 500;
constexpr size_t kMinJoinedFrames = 4;
constexpr double kFading = 0.05;  // probability of what was seen had births not faded
constexpr double kEnded = 0.001;  // ... however well a lasting rate explains those before
constexpr double kMinFreedShare = 0.5;

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
    survivors_ = find_survivors(history, steps.steps, &frames_);
  }

  std::vector<Growth> run() {
    if (!steps_free()) return {};
    std::vector<Group> groups = groups_by_site();
    std::vector<Group> leaks = take_leaks(&groups);
    std::vector<Group> parts = split_or_pooled(groups);
    for (Group& g : take_leaks(&parts)) {
      leave_out(g, &groups);
      leaks.push_back(std::move(g));
    }
    std::vector<Growth> found;
    for (const Group& g : joined(std::move(leaks)))
      found.push_back(described(GrowthKind::kLeak, g));
    add_other_growth(std::move(groups), &found);
    std::stable_sort(found.begin(), found.end(), [](const Growth& a, const Growth& b) {
      if ((a.kind == GrowthKind::kLeak) != (b.kind == GrowthKind::kLeak))
        return a.kind == GrowthKind::kLeak;
      if (a.kind == GrowthKind::kLeak) return a.bytes_per_step > b.bytes_per_step;
      return a.live_bytes > b.live_bytes;
    });
    return found;
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
    for (const Survivor& s : survivors_.blocks) {
      if (!s.from_setup && s.birth >= window_.warmup) outlived += s.bytes;
    }
    return static_cast<double>(born - std::min(outlived, born)) >=
           kMinFreedShare * static_cast<double>(born);
  }

  std::vector<Group> groups_by_site() {
    std::vector<Group> groups;
    for (size_t i = 0; i < survivors_.blocks.size(); ++i) {
      const Survivor& s = survivors_.blocks[i];
      if (i == 0 || survivors_.blocks[i - 1].site != s.site) groups.emplace_back();
      groups.back().blocks.push_back(s);
    }
    for (Group& g : groups) count_births(window_, &g);
    return groups;
  }

  // Moves the leaks out of `groups`. Every site whose births can be asked about counts as tested,
  // whatever else speaks against it, and so do those of earlier calls.
  std::vector<Group> take_leaks(std::vector<Group>* groups) {
    const auto rest = std::stable_partition(groups->begin(), groups->end(), is_testable);
    std::vector<Group> tested(std::make_move_iterator(groups->begin()),
                              std::make_move_iterator(rest));
    groups->erase(groups->begin(), rest);
    std::stable_sort(tested.begin(), tested.end(),
                     [](const Group& a, const Group& b) { return a.alive_bytes > b.alive_bytes; });
    sites_tested_ += tested.size();
    std::vector<double> log_ratios;
    for (size_t i = 0; i < std::min(tested.size(), kMaxCandidates); ++i)
      log_ratios.push_back(tested[i].log_ratio = log_ratio_of(window_, tested[i]));
    const std::vector<bool> lasting = discoveries(log_ratios, sites_tested_, kMaxFalseShare);
    std::vector<Group> leaks;
    for (size_t i = 0; i < tested.size(); ++i) {
      Group& g = tested[i];
      const bool leaks_on = i < lasting.size() && lasting[i] && survives(g) &&
                            fading_of(window_, g) > kEnded &&
                            slope_of(window_, g) >= kMinSlopeBytes;
      (leaks_on ? leaks : *groups).push_back(std::move(g));
    }
    return leaks;
  }

  // What is no leak as a site is looked at again: a line of the program that makes more than one
  // kind of block by their sizes, and blocks without a stack by stream and powers of two, since
  // tensors of changing shape leak in ever new sizes.
  std::vector<Group> split_or_pooled(const std::vector<Group>& groups) {
    std::vector<Group> parts;
    std::map<std::pair<trace::StreamId, uint64_t>, Group> by_power;
    for (const Group& g : groups) {
      const SurvivorSite& site = survivors_.sites[g.blocks.front().site];
      std::map<uint64_t, Group> by_size;
      for (const Survivor& s : g.blocks) {
        Group& part =
            site.frame != 0 ? by_size[s.bytes] : by_power[{site.stream, std::bit_width(s.bytes)}];
        part.blocks.push_back(s);
      }
      if (by_size.size() < 2) continue;
      for (auto& [size, part] : by_size) parts.push_back(std::move(part));
    }
    for (auto& [power, part] : by_power) parts.push_back(std::move(part));
    for (Group& part : parts) count_births(window_, &part);
    return parts;
  }

  // A leak that was found among the blocks of other groups is no longer theirs.
  void leave_out(const Group& leak, std::vector<Group>* groups) {
    std::set<uint32_t> taken;
    std::set<uint32_t> sites;
    for (const Survivor& s : leak.blocks) {
      taken.insert(s.lifetime);
      sites.insert(s.site);
    }
    for (Group& g : *groups) {
      if (!sites.contains(g.blocks.front().site)) continue;
      Group rest;
      for (const Survivor& s : g.blocks) {
        if (!taken.contains(s.lifetime)) rest.blocks.push_back(s);
      }
      count_births(window_, &rest);
      g = std::move(rest);
    }
    std::erase_if(*groups, [](const Group& g) { return g.blocks.empty(); });
  }

  // Leaks without stacks whose blocks are born in the same steps are one: its sizes are the tensors
  // of one structure.
  std::vector<Group> joined(std::vector<Group> leaks) {
    std::map<std::vector<uint32_t>, Group> by_births;
    std::map<std::vector<uint32_t>, std::vector<Group>> framed;
    for (Group& g : leaks) {
      if (survivors_.sites[g.blocks.front().site].frame != 0) {
        std::vector<Group>& same = framed[g.births];
        same.push_back(std::move(g));
      } else {
        Group& same = by_births[g.births];
        add_to(&same, std::move(g));
      }
    }
    std::vector<Group> result;
    result.reserve(by_births.size());
    for (auto& [births, g] : by_births) result.push_back(std::move(g));
    for (auto& [births, same] : framed) join_frames(&same, &result);
    for (Group& g : result) count_again(&g);
    return result;
  }

  // Four or more lines that leak in step with one another, below one common line of the user's: the
  // common line keeps them (a list of outputs with their graphs), not the layers that made them.
  void join_frames(std::vector<Group>* same, std::vector<Group>* result) {
    if (same->size() >= kMinJoinedFrames) {
      Group all;
      for (const Group& g : *same)
        all.blocks.insert(all.blocks.end(), g.blocks.begin(), g.blocks.end());
      if (common_user_frame(all) != 0) {
        all.log_ratio = same->front().log_ratio;
        result->push_back(std::move(all));
        return;
      }
    }
    std::move(same->begin(), same->end(), std::back_inserter(*result));
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
      const GrowthKind kind = kind_of(g);
      if (survivors_.sites[g.blocks.front().site].frame != 0) {
        add(kind, g);
        continue;
      }
      const uint32_t birth = g.births.empty() ? g.early_births.front() : g.births.front();
      add_to(&unframed[{kind, kind == GrowthKind::kOneOff ? birth : 0}], std::move(g));
    }
    for (auto& [key, g] : unframed) {
      count_again(&g);
      add(key.first, g);
    }
  }

  static void add_to(Group* into, Group from) {
    into->blocks.insert(into->blocks.end(), from.blocks.begin(), from.blocks.end());
    into->log_ratio =
        into->births.empty() ? from.log_ratio : std::max(into->log_ratio, from.log_ratio);
    into->births = std::move(from.births);
  }

  void count_again(Group* g) {
    Group fresh;
    fresh.blocks = std::move(g->blocks);
    fresh.log_ratio = g->log_ratio;
    count_births(window_, &fresh);
    *g = std::move(fresh);
  }

  GrowthKind kind_of(const Group& g) const {
    if (g.births.size() + (g.early_bytes > 0 ? 1 : 0) <= 2) return GrowthKind::kOneOff;
    const bool ends = !survives(g) || fading_of(window_, g) <= kFading;
    return ends ? GrowthKind::kBoundedCache : GrowthKind::kUndecided;
  }

  // The innermost line of the user's that all stacks share from the outside in; 0 when there is
  // none.
  trace::FrameId common_user_frame(const Group& g) {
    std::vector<trace::FrameId> common;  // outermost first
    bool first = true;
    for (const Survivor& s : g.blocks) {
      const auto stack = trace_.tables.stacks[history_.lifetimes[s.lifetime].stack];
      const std::vector<trace::FrameId> outside_in(stack.rbegin(), stack.rend());
      if (first) common = outside_in;
      first = false;
      const auto differ =
          std::mismatch(common.begin(), common.end(), outside_in.begin(), outside_in.end());
      common.erase(differ.first, common.end());
    }
    for (size_t i = common.size(); i-- > 0;) {
      if (frames_.is_user(common[i])) return common[i];
    }
    return 0;
  }

  // The name that all have, or the category: "" where neither is one.
  std::string called_by_program(const Group& g) {
    const uint32_t first = g.blocks.front().lifetime;
    const auto all_have = [&](auto what) {
      return std::ranges::all_of(g.blocks, [&](const Survivor& s) {
        return (names_.*what)(s.lifetime) == (names_.*what)(first);
      });
    };
    if (names_.label(first) == 0) return "";
    if (all_have(&Names::label)) return names_.text(names_.label(first));
    const Category category = names_.category(first);
    if (category == Category::kOther || !all_have(&Names::category)) return "";
    return std::string(to_string(category));
  }

  std::string name_of(const Group& g) {
    if (survivors_.sites[g.blocks.front().site].frame != 0) {
      const uint32_t site = g.blocks.front().site;
      const bool one = std::all_of(g.blocks.begin(), g.blocks.end(),
                                   [&](const Survivor& s) { return s.site == site; });
      const trace::FrameId frame = one ? survivors_.sites[site].frame : common_user_frame(g);
      return frame_name(trace_.tables, trace_.tables.frames[frame]);
    }
    if (const std::string called = called_by_program(g); !called.empty()) return called;
    std::vector<uint64_t> sizes;
    sizes.reserve(g.blocks.size());
    for (const Survivor& s : g.blocks) sizes.push_back(s.bytes);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    if (sizes.size() == 1) return fmt::format("{} blocks", format_bytes(sizes.front()));
    return fmt::format("blocks of {} sizes, {} to {}", sizes.size(), format_bytes(sizes.front()),
                       format_bytes(sizes.back()));
  }

  // The stack of the largest block that is still alive.
  std::vector<Frame> typical_stack(const Group& g) {
    const Survivor* largest = nullptr;
    for (const Survivor& s : g.blocks) {
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
    growth.stack = typical_stack(g);
    growth.bytes_per_step = kind == GrowthKind::kOneOff ? 0 : slope_of(window_, g);
    growth.birth_steps = g.births.size() + (g.early_bytes > 0 ? 1 : 0);
    growth.steady_steps = window_.steps - window_.warmup;
    growth.log10_lasting_ratio = g.log_ratio / std::numbers::ln10;
    growth.sites_tested = sites_tested_;
    uint32_t oldest = 0xffffffff;
    for (const Survivor& s : g.blocks) {
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
  size_t sites_tested_ = 0;
  uint64_t stacks_room_bytes_ = kMaxStacksBytes;
  uint64_t peak_bytes_ = 0;
  Survivors survivors_;
};

}  // namespace

std::vector<Growth> find_growth(const trace::Trace& trace, const trace::DeviceTrace& device,
                                const History& history, const Steps& steps, int64_t origin_ns,
                                const Names& names) {
  if (steps.steps.size() < steps.warmup_count + kMinSteadySteps) return {};
  return GrowthFinder(trace, device, history, steps, origin_ns, names).run();
}

}  // namespace vram::explain
