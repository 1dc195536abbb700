#include "explain/growth/growth.hpp"

#include "base/bytes.hpp"
#include "explain/growth/growth_group.hpp"
#include "explain/growth/survivors.hpp"
#include "explain/growth/trend.hpp"
#include "explain/moment/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

namespace vram::explain {
namespace {

constexpr uint64_t kMinSteadySteps = 5;
// Those with most bytes; each costs a look at pairs of steps.
constexpr size_t kMaxCandidates = 500;
constexpr size_t kMinJoinedFrames = 4;
// Leaks of changing size: a birth in every third step at least.
constexpr size_t kMaxStepsPerCoarseBirth = 3;

using Group = GrowthGroup;
using Window = GrowthWindow;

void correct_for_all(std::vector<Group>* groups) {
  std::vector<double> p_values;
  for (const Group& g : *groups) p_values.push_back(g.p_value);
  const std::vector<double> q = corrected(p_values, p_values.size());
  for (size_t i = 0; i < q.size(); ++i) (*groups)[i].p_value = q[i];
}

class GrowthFinder {
 public:
  GrowthFinder(const trace::Trace& trace, const trace::DeviceTrace& device, const History& history,
               const Steps& steps, int64_t origin_ns, const Names& names)
      : trace_(trace),
        events_(trace.events_of(device)),
        history_(history),
        names_(names),
        frames_(trace.tables),
        window_{static_cast<uint32_t>(steps.warmup_count),
                static_cast<uint32_t>(steps.steps.size())},
        origin_ns_(origin_ns) {
    for (const Step& step : steps.steps)
      peak_bytes_ = std::max(peak_bytes_, step.peak_requested_bytes);
    survivors_ = find_survivors(history, steps.steps, &frames_);
  }

  std::vector<Growth> run() {
    std::vector<Group> groups = groups_by_site();
    std::vector<Group> leaks = take_leaks(&groups);
    std::vector<Group> coarse = coarser(&groups);
    std::vector<Group> more = take_leaks(&coarse);
    keep_dense(&more, &coarse);
    std::move(more.begin(), more.end(), std::back_inserter(leaks));
    std::vector<Growth> found;
    for (const Group& g : joined(std::move(leaks)))
      found.push_back(described(GrowthKind::kLeak, g));
    std::move(coarse.begin(), coarse.end(), std::back_inserter(groups));
    for (const Group& g : joined_by_kind(std::move(groups)))
      found.push_back(described(kind_of(g), g));
    std::stable_sort(found.begin(), found.end(), [](const Growth& a, const Growth& b) {
      if ((a.kind == GrowthKind::kLeak) != (b.kind == GrowthKind::kLeak))
        return a.kind == GrowthKind::kLeak;
      if (a.kind == GrowthKind::kLeak) return a.bytes_per_step > b.bytes_per_step;
      return a.live_bytes > b.live_bytes;
    });
    return found;
  }

 private:
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

  // Moves those that pass every test out of `groups`.
  std::vector<Group> take_leaks(std::vector<Group>* groups) {
    const auto rest = std::stable_partition(groups->begin(), groups->end(),
                                            [](const Group& g) { return is_candidate(g); });
    std::vector<Group> tested(std::make_move_iterator(groups->begin()),
                              std::make_move_iterator(rest));
    groups->erase(groups->begin(), rest);
    std::sort(tested.begin(), tested.end(),
              [](const Group& a, const Group& b) { return a.alive_bytes > b.alive_bytes; });
    for (size_t i = 0; i < std::min(tested.size(), kMaxCandidates); ++i)
      measure_trend(window_, &tested[i]);
    correct_for_all(&tested);
    std::vector<Group> leaks;
    for (Group& g : tested) {
      (rises(g) && goes_on(window_, g) ? leaks : *groups).push_back(std::move(g));
    }
    return leaks;
  }

  // Tensors of changing shape leak in ever new sizes: what has no stack and is no leak by its exact
  // size is looked at again by stream and powers of two.
  std::vector<Group> coarser(std::vector<Group>* groups) {
    std::map<std::pair<trace::StreamId, uint64_t>, Group> by_power;
    std::vector<Group> kept;
    for (Group& g : *groups) {
      if (survivors_.sites[g.blocks.front().site].frame != 0 || is_candidate(g)) {
        kept.push_back(std::move(g));
        continue;
      }
      const trace::StreamId stream = survivors_.sites[g.blocks.front().site].stream;
      for (const Survivor& s : g.blocks) {
        by_power[{stream, std::bit_width(s.bytes)}].blocks.push_back(s);
      }
    }
    *groups = std::move(kept);
    std::vector<Group> coarse;
    for (auto& [power, g] : by_power) {
      count_births(window_, &g);
      coarse.push_back(std::move(g));
    }
    return coarse;
  }

  // A cache of shapes has ever new sizes too, but needs them ever less often. Few births cannot
  // tell the two apart.
  void keep_dense(std::vector<Group>* leaks, std::vector<Group>* others) {
    const size_t possible = window_.steps + 1 - kOutlivedEnds - window_.warmup;
    const auto sparse = std::stable_partition(leaks->begin(), leaks->end(), [&](const Group& g) {
      return g.births.size() * kMaxStepsPerCoarseBirth >= possible;
    });
    std::move(sparse, leaks->end(), std::back_inserter(*others));
    leaks->erase(sparse, leaks->end());
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
    for (Group& g : result) measure_again(&g);
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
        count_births(window_, &all);
        all.p_value = same->front().p_value;
        for (const Group& g : *same) all.p_value = std::min(all.p_value, g.p_value);
        result->push_back(std::move(all));
        return;
      }
    }
    std::move(same->begin(), same->end(), std::back_inserter(*result));
  }

  // Growth that is no leak is told by what it is, all sizes together; the blocks of a frame stay
  // together.
  std::vector<Group> joined_by_kind(std::vector<Group> groups) {
    std::map<std::pair<GrowthKind, uint32_t>, Group> unframed;
    std::vector<Group> result;
    for (Group& g : groups) {
      const SurvivorSite& site = survivors_.sites[g.blocks.front().site];
      if (g.alive_bytes + g.early_bytes == 0) continue;
      if (site.frame != 0) {
        result.push_back(std::move(g));
      } else {
        const uint32_t birth = g.births.empty() ? g.early_birth : g.births.front();
        const GrowthKind kind = kind_of(g);
        Group& same = unframed[{kind, kind == GrowthKind::kOneOff ? birth : 0}];
        add_to(&same, std::move(g));
      }
    }
    for (auto& [key, g] : unframed) result.push_back(std::move(g));
    std::erase_if(result, [&](const Group& g) {
      return static_cast<double>(g.alive_bytes + g.early_bytes) <
             kMinReportedShare * static_cast<double>(peak_bytes_);
    });
    for (Group& g : result) measure_again(&g);
    return result;
  }

  static void add_to(Group* into, Group from) {
    into->blocks.insert(into->blocks.end(), from.blocks.begin(), from.blocks.end());
    into->p_value = std::min(into->p_value, from.p_value);
    into->births = std::move(from.births);
    into->early_birth = from.early_birth;
    into->alive_bytes += from.alive_bytes;
    into->early_bytes += from.early_bytes;
  }

  void measure_again(Group* g) {
    Group fresh;
    fresh.blocks = std::move(g->blocks);
    fresh.p_value = g->p_value;
    count_births(window_, &fresh);
    fresh.slope = slope_of(window_, fresh);
    *g = std::move(fresh);
  }

  GrowthKind kind_of(const Group& g) const {
    return g.births.size() + (g.early_bytes > 0 ? 1 : 0) <= 2 ? GrowthKind::kOneOff
                                                              : GrowthKind::kBoundedCache;
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
               : report_stack(trace_.tables, history_.lifetimes[largest->lifetime].stack);
  }

  Growth described(GrowthKind kind, const Group& g) {
    Growth growth;
    growth.kind = kind;
    growth.site = name_of(g);
    growth.stack = typical_stack(g);
    growth.bytes_per_step = kind == GrowthKind::kOneOff ? 0 : g.slope.median;
    growth.birth_steps = g.births.size() + (g.early_bytes > 0 ? 1 : 0);
    growth.steady_steps = window_.steps - window_.warmup;
    growth.p_value = g.p_value;
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
  Window window_;
  int64_t origin_ns_ = 0;
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
