#include "explain/waste/peak_replay.hpp"

#include "explain/moment/curve.hpp"

#include <algorithm>

namespace vram::explain {
namespace {

constexpr uint64_t kStatesInBlock = 1024;

// Bytes that are missing from this state on (or there again, if negative).
struct Missing {
  uint64_t state = 0;
  int64_t bytes = 0;
};

}  // namespace

PeakReplay::PeakReplay(std::span<const trace::Event> events, const History& history)
    : history_(history) {
  const uint64_t count = history.lifetime_of_event.size() + 1;
  requested_.reserve(count);
  TotalsWalker walker(events, history);
  requested_.push_back(walker.totals().requested_bytes);
  while (!walker.at_end()) {
    walker.step();
    requested_.push_back(walker.totals().requested_bytes);
  }
  for (uint64_t first = 0; first < count; first += kStatesInBlock) {
    const std::span<const uint64_t> block =
        requested_.span().subspan(first, std::min(kStatesInBlock, count - first));
    largest_.push_back(*std::ranges::max_element(block));
  }
  peak_ = *std::ranges::max_element(largest_.span());
}

uint64_t PeakReplay::largest_in(uint64_t first, uint64_t end) const {
  uint64_t largest = 0;
  while (first < end) {
    if (first % kStatesInBlock == 0 && end - first >= kStatesInBlock) {
      largest = std::max(largest, largest_[first / kStatesInBlock]);
      first += kStatesInBlock;
      continue;
    }
    const uint64_t stop = std::min(end, (first / kStatesInBlock + 1) * kStatesInBlock);
    for (; first < stop; ++first) largest = std::max(largest, requested_[first]);
  }
  return largest;
}

uint64_t PeakReplay::peak_with(std::span<const Change> changes) const {
  std::vector<Missing> edges;
  edges.reserve(2 * changes.size());
  for (const Change& change : changes) {
    const Lifetime& lifetime = history_.lifetimes[change.lifetime];
    const int64_t from = std::max(change.from, born(lifetime));
    const int64_t until = std::min(change.until, gone(lifetime));
    if (from >= until) continue;
    const auto bytes =
        static_cast<int64_t>(change.bytes == 0 ? lifetime.requested_bytes : change.bytes);
    edges.push_back({static_cast<uint64_t>(from + 1), bytes});
    if (until != kNeverGone) edges.push_back({static_cast<uint64_t>(until + 1), -bytes});
  }
  std::ranges::sort(edges, {}, &Missing::state);
  uint64_t largest = 0;
  uint64_t state = 0;
  int64_t missing = 0;
  const auto see = [&](uint64_t end) {
    end = std::min<uint64_t>(end, requested_.size());
    if (state >= end) return;
    const uint64_t there = largest_in(state, end);
    largest = std::max(largest, there - std::min(there, static_cast<uint64_t>(missing)));
    state = end;
  };
  for (const Missing& edge : edges) {
    see(edge.state);
    missing += edge.bytes;
  }
  see(requested_.size());
  return largest;
}

}  // namespace vram::explain
