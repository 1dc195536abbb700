#include "explain/repetition.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace vram::explain {
namespace {

constexpr size_t kRun = 8;  // sizes in a hashed run: too many to recur by chance
constexpr size_t kMaxSampledRuns =
    1 << 17;  // runs kept of one pass, chosen by hash so that repeats stay together
constexpr uint32_t kMinSteps = 3;  // two of a thing are no rhythm
constexpr double kMinCoverage =
    0.5;                          // runs that recur at random reach 0.36 (exponential distances)
constexpr double kSoonest = 0.4;  // of the median distance: nearer is no new step
constexpr double kMinDistinctRuns = 3;
constexpr uint32_t kMinDistance = 5;  // allocations in a step
constexpr double kMinSwing =
    0.1;  // of the whole swing of live bytes: loops inside a step move less

uint64_t mixed(uint64_t x) {
  x ^= x >> 31;
  x *= 0x7fb5d329728ea185U;
  x ^= x >> 27;
  x *= 0x81dadef4bc2dd44dU;
  return x ^ (x >> 33);
}

// Sizes as small ids, and for each the distances between its occurrences.
struct Sizes {
  PodVector<uint32_t> id_of;     // by allocation
  PodVector<uint32_t> distance;  // by allocation: back to the last of this size; 0 for the first
  uint32_t count = 0;
};

Sizes number_sizes(std::span<const SizedAllocation> allocations) {
  Sizes sizes;
  sizes.id_of.reserve(allocations.size());
  sizes.distance.reserve(allocations.size());
  std::unordered_map<uint64_t, uint32_t> ids;
  std::vector<uint32_t> last;
  for (uint32_t i = 0; i < allocations.size(); ++i) {
    const auto [entry, is_new] =
        ids.try_emplace(allocations[i].size_bytes * 2 + (allocations[i].is_long_lived ? 1 : 0),
                        static_cast<uint32_t>(last.size()));
    const uint32_t id = entry->second;
    if (is_new) last.push_back(i);
    sizes.id_of.push_back(id);
    sizes.distance.push_back(i - last[id]);
    last[id] = i;
  }
  sizes.count = static_cast<uint32_t>(last.size());
  return sizes;
}

// The sizes whose occurrences are at most `limit` apart through most of the recording: the others
// only break up runs.
std::vector<bool> recurring_sizes(const Sizes& sizes, uint32_t limit) {
  std::vector<uint64_t> covered(sizes.count, 0);
  for (size_t i = 0; i < sizes.id_of.size(); ++i) {
    if (sizes.distance[i] <= limit) covered[sizes.id_of[i]] += sizes.distance[i];
  }
  std::vector<bool> recurring(sizes.count);
  const double needed = kMinCoverage * static_cast<double>(sizes.id_of.size());
  for (uint32_t id = 0; id < sizes.count; ++id)
    recurring[id] = static_cast<double>(covered[id]) >= needed;
  return recurring;
}

struct Run {
  uint64_t hash;
  uint32_t at;  // allocation number of its last size
};

// A polynomial hash over the last kRun recurring sizes, rolled along.
std::vector<Run> hash_runs(const Sizes& sizes, const std::vector<bool>& recurring) {
  constexpr uint64_t kBase = 0x9e3779b97f4a7c15U;
  uint64_t drop = 1;
  for (size_t i = 0; i < kRun; ++i) drop *= kBase;
  size_t kept = 0;
  for (const uint32_t id : sizes.id_of) kept += recurring[id] ? 1 : 0;
  uint64_t mask = 0;
  while (kept / (mask + 1) > kMaxSampledRuns) mask = mask * 2 + 1;
  std::vector<Run> runs;
  uint64_t window[kRun] = {};
  uint64_t hash = 0;
  size_t seen = 0;
  for (uint32_t i = 0; i < sizes.id_of.size(); ++i) {
    if (!recurring[sizes.id_of[i]]) continue;
    const uint64_t value = mixed(sizes.id_of[i] + 1);
    hash = hash * kBase + value - window[seen % kRun] * drop;
    window[seen % kRun] = value;
    if (++seen < kRun) continue;
    const uint64_t spread = mixed(hash);
    if ((spread & mask) == 0) runs.push_back({spread, i});
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.at < b.at;
  });
  return runs;
}

struct Rhythm {
  uint32_t median = 0;
  uint64_t regular = 0;  // sum of the distances within a factor of two of the median
  uint64_t tight = 0;    // ... within a quarter
};

Rhythm rhythm_of(std::span<const Run> run, std::vector<uint32_t>* distances) {
  distances->clear();
  for (size_t i = 1; i < run.size(); ++i) distances->push_back(run[i].at - run[i - 1].at);
  const auto middle = distances->begin() + static_cast<ptrdiff_t>(distances->size() / 2);
  std::nth_element(distances->begin(), middle, distances->end());
  Rhythm rhythm{*middle, 0, 0};
  for (const uint32_t d : *distances) {
    if (d >= rhythm.median / 2 && d <= uint64_t{rhythm.median} * 2) rhythm.regular += d;
    if (d >= rhythm.median - rhythm.median / 4 && d <= rhythm.median + rhythm.median / 4)
      rhythm.tight += d;
  }
  return rhythm;
}

// All runs that come at about one distance.
struct Candidate {
  double distinct = 0;
  double occurrences = 0;
  std::span<const Run>
      best;  // the one that covers most; of those about equal the one that occurs most often
  Rhythm rhythm;
};

bool covers_more(const Rhythm& a, size_t a_count, const Rhythm& b, size_t b_count,
                 size_t allocations) {
  const uint64_t about = allocations / 50;
  if (a.regular > b.regular + about) return true;
  return a.regular + about >= b.regular && a_count > b_count;
}

// Distances are grouped by their logarithm, in bins of about a tenth, each joined with its
// neighbours.
int bin_of(uint32_t distance) { return static_cast<int>(std::lround(std::log2(distance) * 8)); }

std::vector<Candidate> candidates_of(std::span<const Run> runs, size_t allocations) {
  std::map<int, Candidate> by_distance;
  std::vector<uint32_t> distances;
  for (size_t first = 0, end = 0; first < runs.size(); first = end) {
    while (end < runs.size() && runs[end].hash == runs[first].hash) ++end;
    const std::span<const Run> run = runs.subspan(first, end - first);
    if (run.size() < kMinSteps) continue;
    const Rhythm rhythm = rhythm_of(run, &distances);
    if (rhythm.median < kMinDistance) continue;
    if (static_cast<double>(rhythm.regular) < kMinCoverage * static_cast<double>(allocations))
      continue;
    Candidate& c = by_distance[bin_of(rhythm.median)];
    c.distinct += 1;
    c.occurrences += static_cast<double>(run.size());
    if (c.best.empty() || covers_more(rhythm, run.size(), c.rhythm, c.best.size(), allocations)) {
      c.rhythm = rhythm;
      c.best = run;
    }
  }
  std::vector<Candidate> candidates;
  for (const auto& [bin, own] : by_distance) {
    Candidate c = own;
    for (const int near : {bin - 1, bin + 1}) {
      const auto other = by_distance.find(near);
      if (other == by_distance.end()) continue;
      c.distinct += other->second.distinct;
      c.occurrences += other->second.occurrences;
    }
    if (c.distinct >= kMinDistinctRuns) candidates.push_back(c);
  }
  return candidates;
}

// How far live bytes move between one occurrence and the next, median, against the whole movement
// there.
double swing_of(std::span<const SizedAllocation> allocations, std::span<const Run> run) {
  std::vector<double> swings;
  uint64_t lowest = UINT64_MAX;
  uint64_t highest = 0;
  for (size_t i = 1; i < run.size(); ++i) {
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (uint32_t k = run[i - 1].at; k < run[i].at; ++k) {
      low = std::min(low, allocations[k].live_bytes);
      high = std::max(high, allocations[k].live_bytes);
    }
    swings.push_back(static_cast<double>(high - low));
    lowest = std::min(lowest, low);
    highest = std::max(highest, high);
  }
  std::nth_element(swings.begin(), swings.begin() + static_cast<ptrdiff_t>(swings.size() / 2),
                   swings.end());
  if (highest <= lowest) return 0;
  return swings[swings.size() / 2] / static_cast<double>(highest - lowest);
}

double score_of(const Candidate& c, size_t runs, size_t allocations) {
  const double coverage = static_cast<double>(c.rhythm.regular) / static_cast<double>(allocations);
  const double tight = static_cast<double>(c.rhythm.tight) / static_cast<double>(allocations);
  const double explained = std::min(1.0, c.occurrences / static_cast<double>(runs));
  return coverage * (coverage + tight) * std::sqrt(explained) * std::log2(1 + c.distinct);
}

// A run can occur twice in some steps: what follows much too soon is the same step.
std::vector<uint32_t> anchors_of(const Candidate& c) {
  std::vector<uint32_t> anchors;
  for (const Run& run : c.best) {
    if (anchors.empty() || run.at - anchors.back() >= c.rhythm.median * kSoonest)
      anchors.push_back(run.at);
  }
  return anchors;
}

}  // namespace

Repetition find_repetition(std::span<const SizedAllocation> allocations) {
  Repetition best;
  double best_score = 0;
  const Sizes sizes = number_sizes(allocations);
  std::vector<bool> last;
  for (size_t limit = allocations.size() / 2; limit >= kMinDistance; limit /= 2) {
    std::vector<bool> recurring = recurring_sizes(sizes, static_cast<uint32_t>(limit));
    if (recurring == last) continue;
    last = recurring;
    const std::vector<Run> runs = hash_runs(sizes, recurring);
    for (const Candidate& c : candidates_of(runs, allocations.size())) {
      const double score = score_of(c, runs.size(), allocations.size());
      if (score <= best_score || swing_of(allocations, c.best) < kMinSwing) continue;
      best_score = score;
      best.anchors = anchors_of(c);
      best.distinct_runs = static_cast<uint64_t>(c.distinct);
      best.typical_distance = c.rhythm.median;
      best.coverage =
          static_cast<double>(c.rhythm.regular) / static_cast<double>(allocations.size());
    }
  }
  return best;
}

}  // namespace vram::explain
