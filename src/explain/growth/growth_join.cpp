#include "explain/growth/growth_join.hpp"

#include "explain/growth/growth.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace vram::explain {
namespace {

constexpr size_t kMinJoinedFrames = 4;
// Of a leak's steps those that it leaks in: more are no rhythm that others could share by reason.
constexpr double kMaxRhythmShare = 0.7;
constexpr double kMaxRhythmChance = 0.005;  // that other births follow the rhythm by chance
constexpr double kMinAtPosition = 0.8;      // of a site's blocks
constexpr double kMaxSharedBirths = 0.1;    // of two sites at one position
// What precedes a block shows its place: so many blocks that lived for more than a few events.
constexpr size_t kPreceding = 8;
constexpr size_t kMinScaled = 2;  // of these, with the batch
constexpr uint32_t kBriefEvents = 2;
constexpr uint32_t kMaxLookedBack = 64;  // blocks
constexpr size_t kMaxBatchSizes = 64;    // of a leak; each is compared with all blocks of others

// The position of nearly all blocks, if they have one.
std::optional<uint32_t> position_of(const GrowthGroup& g, uint32_t Holdover::* from) {
  std::map<uint32_t, size_t> counts;
  for (const Holdover& b : g.blocks) ++counts[b.*from];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; });
  const bool is_common =
      static_cast<double>(most->second) >= kMinAtPosition * static_cast<double>(g.blocks.size());
  return is_common ? std::optional(most->first) : std::nullopt;
}

bool alternate(const GrowthGroup& a, const GrowthGroup& b) {
  std::vector<uint32_t> shared;
  std::ranges::set_intersection(a.births, b.births, std::back_inserter(shared));
  return static_cast<double>(shared.size()) <=
         kMaxSharedBirths * static_cast<double>(std::min(a.births.size(), b.births.size()));
}

bool are_at_one_position(const GrowthGroup& a, const GrowthGroup& b) {
  for (uint32_t Holdover::* const from : {&Holdover::to_end, &Holdover::from_begin}) {
    const std::optional<uint32_t> position = position_of(a, from);
    if (position && position == position_of(b, from)) return true;
  }
  return false;
}

}  // namespace

std::vector<GrowthGroup> GrowthJoiner::joined(std::vector<GrowthGroup> leaks,
                                              std::vector<GrowthGroup>* others) {
  Groups all = join_rhythms(join_births(join_positions(std::move(leaks))), others);
  claim_other_batches(&all, others);
  return all;
}

void GrowthJoiner::add_to(GrowthGroup* into, GrowthGroup from) const {
  into->log_ratio =
      into->blocks.empty() ? from.log_ratio : std::max(into->log_ratio, from.log_ratio);
  if (into->blocks.empty() || from.trend.p_value < into->trend.p_value) into->trend = from.trend;
  drop_brief(&from);
  into->blocks.insert(into->blocks.end(), from.blocks.begin(), from.blocks.end());
  into->outlived = std::max(into->outlived, from.outlived);
  count_births(window_, into);
}

std::vector<GrowthGroup> GrowthJoiner::join_positions(Groups leaks) const {
  Groups result;
  for (GrowthGroup& leak : leaks) {
    const auto same = std::ranges::find_if(result, [&](const GrowthGroup& g) {
      return !is_framed(leak) && !is_framed(g) &&
             sites_[g.blocks.front().site].stream == sites_[leak.blocks.front().site].stream &&
             alternate(g, leak) && are_at_one_position(g, leak);
    });
    if (same == result.end()) {
      result.push_back(std::move(leak));
    } else {
      add_to(&*same, std::move(leak));
    }
  }
  return result;
}

std::vector<GrowthGroup> GrowthJoiner::join_births(Groups leaks) {
  std::map<std::vector<uint32_t>, GrowthGroup> by_births;
  std::map<std::vector<uint32_t>, Groups> framed;
  for (GrowthGroup& g : leaks) {
    const std::vector<uint32_t> births = g.births;
    if (is_framed(g)) {
      framed[births].push_back(std::move(g));
    } else {
      add_to(&by_births[births], std::move(g));
    }
  }
  Groups result;
  result.reserve(by_births.size());
  for (auto& [births, g] : by_births) result.push_back(std::move(g));
  for (auto& [births, same] : framed) join_frames(&same, &result);
  return result;
}

void GrowthJoiner::join_frames(Groups* same, Groups* result) {
  if (same->size() >= kMinJoinedFrames) {
    GrowthGroup all;
    for (const GrowthGroup& g : *same) add_to(&all, g);
    all.lead_frame = common_user_frame(all);
    if (all.lead_frame != 0) {
      result->push_back(std::move(all));
      return;
    }
  }
  std::move(same->begin(), same->end(), std::back_inserter(*result));
}

// Births near the ends of the examined steps have their partner outside.
bool GrowthJoiner::keeps_rhythm(const GrowthGroup& lead, const GrowthGroup& g) const {
  const int64_t first = lead.births.front();
  const int64_t end = window_.steps + 1 - int64_t{kOutlivedEnds};
  const double share = static_cast<double>(lead.births.size()) / static_cast<double>(end - first);
  if (share > kMaxRhythmShare || is_framed(lead) != is_framed(g)) return false;
  for (const int64_t lag : {0, -1, 1}) {
    const auto follows = [&](uint32_t birth) {
      const int64_t at = birth + lag;
      return at < first || at >= end || std::ranges::binary_search(lead.births, at);
    };
    const double chance = 3 * std::pow(share, static_cast<double>(g.births.size()));
    if (chance <= kMaxRhythmChance && std::ranges::all_of(g.births, follows)) return true;
  }
  return false;
}

std::vector<GrowthGroup> GrowthJoiner::join_rhythms(Groups leaks, Groups* others) const {
  std::ranges::stable_sort(leaks, [](const GrowthGroup& a, const GrowthGroup& b) {
    return a.alive_bytes > b.alive_bytes;
  });
  Groups result;
  while (!leaks.empty()) {
    GrowthGroup lead = std::move(leaks.front());
    leaks.erase(leaks.begin());
    const GrowthGroup rhythm = lead;
    for (Groups* from : {&leaks, others}) {
      for (GrowthGroup& g : *from) {
        if (!is_testable(g) || !survives(g) || !keeps_rhythm(rhythm, g)) continue;
        if (is_framed(g)) {
          if (lead.lead_frame == 0) lead.lead_frame = sites_[lead.blocks.front().site].frame;
          ++lead.other_sites;
        }
        add_to(&lead, std::exchange(g, GrowthGroup()));
      }
      std::erase_if(*from, [](const GrowthGroup& g) { return g.blocks.empty(); });
    }
    result.push_back(std::move(lead));
  }
  return result;
}

std::vector<uint64_t> GrowthJoiner::sizes_before(uint32_t lifetime) const {
  const trace::StreamId stream = history_.lifetimes[lifetime].stream;
  std::vector<uint64_t> sizes;
  for (uint32_t back = 1; back <= std::min(lifetime, kMaxLookedBack); ++back) {
    const Lifetime& l = history_.lifetimes[lifetime - back];
    const uint32_t freed = std::min(l.free_requested_event, l.free_completed_event);
    if (l.alloc_event == kBeforeRecording || sizes.size() == kPreceding) break;
    if (l.stream == stream && freed - l.alloc_event > kBriefEvents)
      sizes.push_back(l.requested_bytes);
  }
  return sizes;
}

namespace {

// A block, and the sizes of what precedes it.
struct Place {
  uint64_t bytes = 0;
  trace::StreamId stream = 0;
  std::vector<uint64_t> before;

  [[nodiscard]] bool is_other_batch(const Place& other) const {
    if (bytes == other.bytes || stream != other.stream || before.size() != other.before.size())
      return false;
    size_t scaled = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] == other.before[i]) continue;
      if (static_cast<double>(before[i]) * static_cast<double>(other.bytes) !=
          static_cast<double>(other.before[i]) * static_cast<double>(bytes))
        return false;
      ++scaled;
    }
    return before.size() == kPreceding && scaled >= kMinScaled;
  }
};

// Moves the blocks of `other` that `belongs` to the end of `leak`, unless more than a few were
// freed.
template <typename Belongs>
bool claim(GrowthGroup* leak, GrowthGroup* other, uint32_t steps, Belongs&& belongs) {
  const auto claimed =
      std::ranges::stable_partition(other->blocks, [&](const Holdover& b) { return !belongs(b); });
  const auto kept = static_cast<double>(
      std::ranges::count_if(claimed, [&](const Holdover& b) { return b.death == steps; }));
  if (kept < kMinSurvival * static_cast<double>(claimed.size()) || claimed.empty()) return false;
  leak->blocks.insert(leak->blocks.end(), claimed.begin(), claimed.end());
  other->blocks.erase(claimed.begin(), claimed.end());
  return true;
}

}  // namespace

void GrowthJoiner::claim_other_batches(Groups* leaks, Groups* others) const {
  const auto place_of = [&](uint32_t lifetime) {
    const Lifetime& l = history_.lifetimes[lifetime];
    return Place{l.requested_bytes, l.stream, sizes_before(lifetime)};
  };
  std::ranges::stable_sort(*leaks, [](const GrowthGroup& a, const GrowthGroup& b) {
    return a.births.size() > b.births.size();
  });
  for (GrowthGroup& leak : *leaks) {
    if (leak.blocks.empty() || is_framed(leak)) continue;
    std::map<uint64_t, uint32_t> latest;  // the latest block of each size
    for (const Holdover& b : leak.blocks) {
      if (!b.from_setup) latest[b.bytes] = b.lifetime;
    }
    if (latest.size() > kMaxBatchSizes) continue;
    std::vector<Place> places;
    places.reserve(latest.size());
    for (const auto& [bytes, lifetime] : latest) places.push_back(place_of(lifetime));
    const auto belongs = [&](const Holdover& b) {
      if (b.from_setup || !b.survives()) return false;
      const Place place = place_of(b.lifetime);
      return std::ranges::any_of(places, [&](const Place& p) { return p.is_other_batch(place); });
    };
    for (Groups* from : {others, leaks}) {
      for (GrowthGroup& other : *from) {
        const bool leaks_as_often = from == leaks && other.births.size() >= leak.births.size();
        if (leaks_as_often || other.blocks.empty() || is_framed(other)) continue;
        if (!claim(&leak, &other, window_.steps, belongs)) continue;
        count_births(window_, &leak);
        count_births(window_, &other);
      }
    }
  }
  for (Groups* from : {leaks, others})
    std::erase_if(*from, [](const GrowthGroup& g) { return g.blocks.empty(); });
}

// The innermost line of the user's that all stacks share from the outside in; 0 when there is none.
trace::FrameId GrowthJoiner::common_user_frame(const GrowthGroup& g) {
  std::vector<trace::FrameId> common;  // outermost first
  bool first = true;
  for (const Holdover& b : g.blocks) {
    const auto stack = tables_.stacks[history_.lifetimes[b.lifetime].stack];
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

}  // namespace vram::explain
