#include "explain/steps/evidence.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

constexpr double kMaxKept = 0.5;     // of the range's peak, beyond the end of the next range
constexpr double kMaxHanded = 0.02;  // of the range's peak, to the next range alone
constexpr double kMaxRangeShare = 0.75;
constexpr double kMinDescending = 0.8;
constexpr double kGone = 0.1;       // of what had piled up: less is left after a pass
constexpr double kPassShare = 0.5;  // of the range's peak: less is no pass

// How many blocks lie one inside the other's life: the longest row of them that was born in one
// order and died in the reverse. Patience sorting of the births, as blocks die.
class NestedLives {
 public:
  void died(uint32_t birth) {
    const auto place = std::ranges::lower_bound(latest_, birth, std::greater());
    if (place == latest_.end()) {
      latest_.push_back(birth);
    } else {
      *place = birth;
    }
  }
  [[nodiscard]] size_t depth() const { return latest_.size(); }

 private:
  std::vector<uint32_t> latest_;  // birth that a row of each length can end with; falls
};

// Live bytes rise and fall to next to nothing.
struct Pass {
  uint64_t height = 0;
  uint64_t turn = 0;  // the event at which it was highest
  NestedLives lives;
  NestedLives between_births;  // only the first that died after each birth
};

class Passes {
 public:
  void set_live(uint64_t bytes, uint64_t event) {
    if (bytes > live_) is_after_birth_ = true;
    live_ = bytes;
    if (bytes > pass_.height) {
      pass_.height = bytes;
      pass_.turn = event;
    }
    if (static_cast<double>(bytes) > kGone * static_cast<double>(pass_.height)) return;
    all_.push_back(std::exchange(pass_, {bytes, event, {}, {}}));
  }
  void died(uint32_t birth) {
    pass_.lives.died(birth);
    if (std::exchange(is_after_birth_, false)) pass_.between_births.died(birth);
  }
  [[nodiscard]] std::vector<Pass> all() && {
    all_.push_back(std::move(pass_));
    return std::move(all_);
  }

 private:
  std::vector<Pass> all_;
  Pass pass_;  // that has not gone yet
  uint64_t live_ = 0;
  bool is_after_birth_ = false;
};

// What happened to blocks in one range. Peak and births are those of its own blocks.
struct RangeFacts {
  size_t depth = 0;  // of nested lives
  size_t passes = 0;
  std::vector<uint64_t> turns;  // of the passes that train: where they were highest
  uint64_t born_bytes = 0;
  uint64_t died_bytes = 0;    // of its own blocks, inside
  uint64_t handed_bytes = 0;  // ... in the next range
  uint64_t peak_bytes = 0;
  double old_bytes = 0;   // died here and born before the range before
  double old_births = 0;  // the sum of their births, each times its bytes

  [[nodiscard]] uint64_t kept_bytes() const { return born_bytes - died_bytes - handed_bytes; }
};

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// A pass is high; one that trains is deep, whatever its batch. A backward pass allocates gradients
// while it frees; an optimizer's temporaries may nest as deeply, but all of them are there before
// the first is freed.
void count_passes(const std::vector<Pass>& all, RangeFacts* facts) {
  const uint64_t highest = std::ranges::max(all, {}, &Pass::height).height;
  const size_t deep = std::max(kMinNestedAlone, (facts->depth + 1) / 2);
  size_t most = 0;
  for (const Pass& pass : all) most = std::max(most, pass.between_births.depth());
  for (const Pass& pass : all) {
    const bool trains = pass.lives.depth() >= deep && pass.between_births.depth() * 2 >= most;
    if (trains) facts->turns.push_back(pass.turn);
    if (trains || share(pass.height, highest) >= kPassShare) ++facts->passes;
  }
}

std::vector<RangeFacts> facts_of(const History& history, std::span<const EventRange> ranges) {
  std::vector<RangeFacts> facts(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    const EventRange range = ranges[i];
    uint64_t live = 0;
    NestedLives lives;
    Passes passes;
    for (uint64_t e = range.first; e < range.end; ++e) {
      const uint32_t index = history.lifetime_of_event[e];
      if (index == kNoLifetime) continue;
      const Lifetime& l = history.lifetimes[index];
      const bool before = l.alloc_event == kBeforeRecording;
      if (l.alloc_event == e) {
        facts[i].born_bytes += l.requested_bytes;
        live += l.requested_bytes;
        passes.set_live(live, e);
        facts[i].peak_bytes = std::max(facts[i].peak_bytes, live);
      }
      if (std::min(l.free_requested_event, l.free_completed_event) != e) continue;
      if (!before && l.alloc_event >= range.first) {
        facts[i].died_bytes += l.requested_bytes;
        live -= l.requested_bytes;
        lives.died(l.alloc_event);
        passes.died(l.alloc_event);
        passes.set_live(live, e);
      } else if (!before && i > 0 && l.alloc_event >= ranges[i - 1].first) {
        facts[i - 1].handed_bytes += l.alloc_event < ranges[i - 1].end ? l.requested_bytes : 0;
      } else {
        const auto bytes = static_cast<double>(l.requested_bytes);
        facts[i].old_bytes += bytes;
        facts[i].old_births += before ? 0 : bytes * l.alloc_event;
      }
    }
    facts[i].depth = lives.depth();
    count_passes(std::move(passes).all(), &facts[i]);
  }
  return facts;
}

// Do the ranges free, one after the other, what was allocated before them, the last born first?
// What was there before the recording was born at one time, for all that is known.
bool lie_in_a_backward_pass(std::span<const RangeFacts> facts) {
  size_t pairs = 0;
  size_t descending = 0;
  for (size_t i = 1; i < facts.size(); ++i) {
    if (facts[i].old_bytes == 0 || facts[i - 1].old_bytes == 0) continue;
    ++pairs;
    const double before = facts[i - 1].old_births / facts[i - 1].old_bytes;
    descending += facts[i].old_births / facts[i].old_bytes <= before ? 1 : 0;
  }
  return pairs * 4 >= facts.size() &&
         static_cast<double>(descending) >= kMinDescending * static_cast<double>(pairs);
}

// The number of passes that most ranges have, and how many ranges.
struct Usual {
  size_t passes = 0;
  size_t ranges = 0;
};

size_t passes_of(const RangeFacts& f, bool trains) { return trains ? f.turns.size() : f.passes; }

Usual usual_passes(std::span<const RangeFacts> facts, bool trains) {
  std::map<size_t, size_t> ranges_with;
  for (const RangeFacts& f : facts) ++ranges_with[passes_of(f, trains)];
  const auto most =
      std::ranges::max_element(ranges_with, {}, [](const auto& entry) { return entry.second; });
  return {most->first, most->second};
}

bool is_backward(const RangeFacts& f) {
  return f.depth >= kMinNested || (f.depth >= kMinNestedAlone &&
                                   share(f.handed_bytes, f.peak_bytes) <= kMaxHandedByTraining);
}

}  // namespace

StepEvidence find_evidence(const History& history, std::span<const EventRange> ranges) {
  if (ranges.size() < 2) return {};
  const std::vector<RangeFacts> facts = facts_of(history, ranges);
  if (lie_in_a_backward_pass(facts)) return {};
  // What the last range hands on is not known.
  const std::span<const RangeFacts> judged = std::span(facts).first(facts.size() - 1);
  size_t trains = 0;
  size_t alone = 0;
  size_t others = 0;
  for (const RangeFacts& f : judged) {
    others += f.passes > f.turns.size() ? 1 : 0;
    if (share(f.kept_bytes(), f.peak_bytes) > kMaxKept) continue;
    trains += is_backward(f) ? 1 : 0;
    alone += share(f.handed_bytes, f.peak_bytes) <= kMaxHanded ? 1 : 0;
  }
  const auto most = [&](size_t count) {
    return static_cast<double>(count) >= kMaxRangeShare * static_cast<double>(judged.size());
  };
  StepEvidence evidence;
  evidence.trains = most(trains);
  evidence.stands_alone = most(alone);
  const Usual usual = usual_passes(judged, evidence.trains);
  evidence.is_even = most(usual.ranges);
  evidence.has_evaluations = evidence.trains && usual.passes > 1 && most(others);
  evidence.usual_passes = usual.passes;
  evidence.odd_ranges =
      static_cast<size_t>(std::ranges::count_if(judged.subspan(1), [&](const RangeFacts& f) {
        return passes_of(f, evidence.trains) != usual.passes;
      }));
  for (const RangeFacts& f : facts) evidence.turns.push_back(f.turns);
  return evidence;
}

}  // namespace vram::explain
