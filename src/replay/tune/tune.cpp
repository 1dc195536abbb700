#include "replay/tune/tune.hpp"

#include "base/result.hpp"
#include "replay/capacity.hpp"
#include "replay/fidelity.hpp"
#include "replay/registry.hpp"
#include "replay/tune/tune_space.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <utility>

namespace vram::replay {
namespace {

// So many operations in all take seconds on a few cores.
constexpr size_t kOperations = 120'000'000;
constexpr size_t kMinReplays = 64;
constexpr size_t kMaxReplays = 320;
constexpr size_t kBestFew = 3;
constexpr int kRounds = 5;
constexpr uint32_t kAddressLayouts = 3;  // enough to see what depends on luck

size_t affordable_replays(const Program& program) {
  return std::clamp(kOperations / std::max<size_t>(program.ops.size(), 1), kMinReplays,
                    kMaxReplays);
}

// Makes replays, each spec once, and keeps what they gave in the order in which they were asked
// for.
class Replays {
 public:
  Replays(const Program& program, const AllocatorSpec& recorded, const TuneOptions& options,
          size_t max_replays)
      : program_(program),
        recorded_(recorded),
        options_(options),
        replay_options_(tune_replay_options(options)),
        left_(max_replays) {}

  void make(const std::vector<AllocatorSpec>& specs) {
    const size_t begin = made_.size();
    for (const AllocatorSpec& spec : specs) {
      if (left_ == 0) break;
      if (!seen_.insert(spec.to_string()).second) continue;
      made_.push_back({.spec = spec, .result = {}, .is_recorded = spec == recorded_});
      --left_;
    }
    run_on_threads(std::span(made_).subspan(begin));
  }

  [[nodiscard]] const std::vector<TuneCandidate>& made() const { return made_; }

 private:
  void run_on_threads(std::span<TuneCandidate> fresh) {
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < fresh.size(); i = next++) {
        run_one(fresh[i]);
        report_one();
      }
    };
    const size_t threads = std::min<size_t>(job_count(), fresh.size());
    std::vector<std::jthread> pool;
    for (size_t i = 1; i < threads; ++i) pool.emplace_back(work);
    work();
  }
  [[nodiscard]] unsigned job_count() const {
    return options_.jobs > 0 ? options_.jobs : std::max(std::thread::hardware_concurrency(), 1U);
  }
  void run_one(TuneCandidate& candidate) const {
    auto result = replay(program_, candidate.spec, replay_options_);
    VRAM_CHECK(result.has_value());  // the space makes valid specs only
    candidate.result = std::move(*result);
  }
  void report_one() {
    const std::scoped_lock lock(progress_mutex_);
    ++done_;
    if (options_.progress) options_.progress(done_, made_.size());
  }

  const Program& program_;
  const AllocatorSpec& recorded_;
  const TuneOptions& options_;
  ReplayOptions replay_options_;
  size_t left_;
  std::set<std::string> seen_;
  std::vector<TuneCandidate> made_;
  std::mutex progress_mutex_;
  size_t done_ = 0;
};

std::vector<AllocatorSpec> other_allocators() {
  std::vector<AllocatorSpec> specs;
  for (const Peer& peer : peers()) {
    if (peer.name != "torch") specs.push_back({.name = std::string(peer.name), .settings = {}});
  }
  return specs;
}

bool is_torch(const TuneCandidate& candidate) { return candidate.spec.name == "torch"; }

std::vector<TuneCandidate> ranked_if(const std::vector<TuneCandidate>& made, bool torch,
                                     int64_t duration_ns) {
  std::vector<TuneCandidate> chosen;
  std::ranges::copy_if(made, std::back_inserter(chosen),
                       [&](const TuneCandidate& each) { return is_torch(each) == torch; });
  TuneRank(chosen, duration_ns).sort(chosen);
  return chosen;
}

// The best few with expandable segments and the best few without: other settings help these, and
// not every program can have those.
std::vector<AllocatorSpec> points_of(const std::vector<TuneCandidate>& ranked) {
  std::vector<AllocatorSpec> points;
  for (const bool expandable : {true, false}) {
    size_t left = kBestFew;
    for (const TuneCandidate& each : ranked) {
      if (left == 0) break;
      if (is_expandable(each.spec) != expandable) continue;
      points.push_back(each.spec);
      --left;
    }
  }
  return points;
}

// Changes the best few one key at a time as long as that finds something better.
void refine(const TuneSpace& space, int64_t duration_ns, Replays& replays) {
  std::vector<std::string> before;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<AllocatorSpec> next;
    std::vector<std::string> names;
    for (const AllocatorSpec& point : points_of(ranked_if(replays.made(), true, duration_ns))) {
      names.push_back(point.to_string());
      std::ranges::move(space.neighbours(point), std::back_inserter(next));
    }
    if (names == before) return;
    before = std::move(names);
    replays.make(next);
  }
}

TuneVerdict verdict_of(const TuneResult& result, const TuneOptions& options,
                       const Program& program) {
  if (options.capacity_bytes && result.peak_live_bytes > *options.capacity_bytes)
    return TuneVerdict::kCannotFit;
  const TuneCandidate& best = result.ranked.front();
  if (!best.result.completed) return TuneVerdict::kNoneCompletes;
  const ReplayResult& own = result.ranked[result.recorded].result;
  if (own.completed && fidelity_of(program, own).peak_is_before) return TuneVerdict::kPeakIsBefore;
  const TuneRank rank(result.ranked, program.duration_ns);
  const bool as_good = rank.class_of(result.ranked[result.recorded]) == rank.class_of(best);
  return as_good ? TuneVerdict::kRecordedIsBest : TuneVerdict::kBetter;
}

}  // namespace

ReplayOptions tune_replay_options(const TuneOptions& options) {
  return {.capacity_bytes = options.capacity_bytes,
          .capacity_is_fraction = options.capacity_is_fraction,
          .lag_ns = options.lag_ns,
          .curve_slices = 0,
          .address_layouts = kAddressLayouts};
}

TuneResult tune(const Program& program, const AllocatorSpec& recorded, const TuneOptions& options) {
  const AllocatorSpec own = normalised(recorded);
  const TuneSpace space(program, options.capacity_bytes.has_value());
  Replays replays(program, own, options, affordable_replays(program));
  std::vector<AllocatorSpec> first = {own};
  std::ranges::move(other_allocators(), std::back_inserter(first));
  std::ranges::move(space.grid(), std::back_inserter(first));
  replays.make(first);

  TuneResult result;
  result.peak_live_bytes = peak_live_bytes(program);
  const bool can_fit = !options.capacity_bytes || result.peak_live_bytes <= *options.capacity_bytes;
  if (can_fit) refine(space, program.duration_ns, replays);
  result.ranked = ranked_if(replays.made(), true, program.duration_ns);
  result.others = ranked_if(replays.made(), false, program.duration_ns);
  result.replays = replays.made().size();
  const auto found = std::ranges::find(result.ranked, true, &TuneCandidate::is_recorded);
  VRAM_CHECK(found != result.ranked.end());
  result.recorded = static_cast<size_t>(found - result.ranked.begin());
  result.verdict = verdict_of(result, options, program);
  return result;
}

}  // namespace vram::replay
