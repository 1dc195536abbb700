// Memory that goes to the driver and back, pinned host memory, and GPUs of one process compared.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/statistics.hpp"
#include "base/time.hpp"
#include "explain/findings/findings.hpp"
#include "explain/waste/patterns.hpp"
#include "replay/peers/torch_options.hpp"
#include "replay/peers/vram_rules.hpp"
#include "replay/program.hpp"
#include "trace/allocators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace vram::explain {
namespace {

// Memory given back by one call, and how much was taken again within a step.
struct GivenBackAtOnce {
  uint64_t first = 0;
  uint64_t end = 0;
  uint64_t bytes = 0;
  uint64_t calls = 0;
  uint64_t taken_again_bytes = 0;
  trace::StackId stack = 0;
};

// Memory taken from the driver, by pool: that of a CUDA graph takes what it needs once.
class Taken {
 public:
  explicit Taken(std::span<const trace::Event> events) {
    for (uint64_t i = 0; i < events.size(); ++i) {
      if (!replay::takes(events[i].kind)) continue;
      std::vector<Sum>& sums = by_pool_[events[i].pool];
      const uint64_t before = sums.empty() ? 0 : sums.back().bytes;
      sums.push_back({i, before + events[i].size_bytes});
    }
  }
  // In the events [first, end).
  [[nodiscard]] uint64_t in(trace::PoolId pool, uint64_t first, uint64_t end) const {
    const auto sums = by_pool_.find(pool);
    return sums == by_pool_.end() ? 0 : before(sums->second, end) - before(sums->second, first);
  }

 private:
  struct Sum {
    uint64_t event = 0;
    uint64_t bytes = 0;  // up to and including it
  };
  [[nodiscard]] static uint64_t before(const std::vector<Sum>& sums, uint64_t event) {
    const auto after = std::ranges::lower_bound(sums, event, {}, &Sum::event);
    return after == sums.begin() ? 0 : std::prev(after)->bytes;
  }
  std::map<trace::PoolId, std::vector<Sum>> by_pool_;
};

std::vector<GivenBackAtOnce> find_given_back(const WasteIndex& index) {
  const std::span<const trace::Event> events = index.events();
  const trace::Tables& tables = index.sources().trace.tables;
  std::vector<GivenBackAtOnce> found;
  for (uint64_t i = 0; i < events.size(); ++i) {
    if (!replay::gives_back(events[i].kind) || replay::is_of_vram(tables, events[i].context))
      continue;
    // Pending frees complete inside such a call.
    uint64_t at = i;
    const bool joins = !found.empty() && [&] {
      while (at > found.back().end && events[at - 1].kind == trace::EventKind::kFreeCompleted) --at;
      return at == found.back().end;
    }();
    if (!joins) found.push_back({.first = i, .stack = events[i].stack});
    found.back().end = i + 1;
    found.back().bytes += events[i].size_bytes;
    ++found.back().calls;
  }
  const Taken taken(events);
  for (GivenBackAtOnce& each : found) {
    each.taken_again_bytes =
        taken.in(events[each.first].pool, each.end, each.end + index.step_events());
  }
  return found;
}

// In how many steps memory was given back.
size_t count_steps(const Steps& steps, const std::vector<GivenBackAtOnce>& calls) {
  size_t count = 0;
  auto call = calls.begin();
  for (const Step& step : steps.steps) {
    while (call != calls.end() && call->first < step.first_event) ++call;
    count += call != calls.end() && call->first - step.first_event < step.event_count ? 1 : 0;
  }
  return count;
}

std::string duration_text(const WasteIndex& index, const std::vector<GivenBackAtOnce>& calls) {
  if (!index.sources().trace.has_time) return "";
  int64_t total_ns = 0;
  for (const GivenBackAtOnce& each : calls) {
    const int64_t begin = index.events()[each.first].time_ns;
    const int64_t end = index.events()[each.end - 1].time_ns;
    if (end > begin) total_ns = sum_of_nanoseconds(total_ns, nanoseconds_between(begin, end));
  }
  return total_ns == 0 ? "" : trf(" Giving it back took {} ms.", total_ns / 1'000'000);
}

}  // namespace

Patterns driver_churn(WasteIndex& index) {
  const Steps& steps = index.report().steps;
  if (index.step_events() == 0 || steps.steps.size() <= steps.warmup_count) return {};
  // Blocks whose segments are not known come and go by themselves.
  if (trace::has_unknown_allocator(index.sources().trace)) return {};
  // Garbage collection of the cache has its own finding (findings_waste.cpp).
  if (replay::recorded_torch(index.sources().trace).garbage_collection_threshold > 0) return {};
  const uint64_t steady_from = steps.steps[steps.warmup_count].first_event;
  std::vector<GivenBackAtOnce> calls;
  uint64_t bytes = 0;
  bool is_cleaning = true;
  for (const GivenBackAtOnce& each : find_given_back(index)) {
    if (each.first < steady_from || each.taken_again_bytes * 10 < each.bytes * 9) continue;
    bytes += each.bytes;
    calls.push_back(each);
    is_cleaning = is_cleaning && each.stack != 0 && index.facts(each.stack).empties_cache;
  }
  const uint64_t steady = steps.steps.size() - steps.warmup_count;
  const size_t in_steps = count_steps(steps, calls);
  const uint64_t peak = index.report().peak.reserved.totals.reserved_bytes;
  const bool is_often = in_steps >= kMinRepetitions && in_steps * 2 >= steady;
  if (!is_often || !matters(bytes / calls.size(), kMinSavedShare, peak)) return {};
  uint64_t segments = 0;
  for (const GivenBackAtOnce& each : calls) segments += each.calls;
  Finding finding{is_cleaning ? FindingKind::kCleaning : FindingKind::kChurn, 0, "", "", ""};
  finding.saves_bytes = 0;
  finding.detail =
      trf("{} times, in {} of {} steady steps, {} in all ({} segments); at least 90 % of each was "
          "taken again within a step.{}",
          format_count(calls.size()), format_count(in_steps), format_count(steady),
          format_bytes(bytes), format_count(segments), duration_text(index, calls));
  if (is_cleaning) {
    finding.line = index.line_of(calls.front().stack);
    finding.title = tr("Emptying the cache costs more than it gives: ") + finding.line;
    finding.advice = tr(
        "Remove torch.cuda.empty_cache() from the loop: the allocator uses cached memory for the "
        "next step, and gives it back by itself before it fails.");
  } else {
    finding.title = tr("Memory goes back to the driver and is taken again in the steps");
    finding.advice = tr(
        "If the program calls torch.cuda.empty_cache() in its loop, remove it. Otherwise the "
        "memory limit is met again and again: use a smaller batch, or a setting with less unused "
        "memory "
        "(`vram tune`).");
  }
  return {{std::move(finding), {}}};
}

Patterns data_parallel(WasteIndex& index) {
  if (index.sources().trace.devices.size() < 2) return {};
  std::vector<uint8_t> gathers(index.place_count());
  const Lifetime* largest = nullptr;
  uint64_t bytes = 0;
  for (const uint32_t id : index.at_peak()) {
    const Lifetime& block = index.block(id);
    if (block.stack == 0 || !index.facts(block.stack).gathers) continue;
    gathers[block.stack] = 1;
    bytes += block.requested_bytes;
    if (largest == nullptr || block.requested_bytes > largest->requested_bytes) largest = &block;
  }
  if (largest == nullptr) return {};
  std::vector<Change> changes;
  for (uint32_t id = 0; id < index.history().lifetimes.size(); ++id)
    if (gathers[index.block(id).stack] != 0) changes.push_back(remove_block(index.history(), id));
  Finding finding{FindingKind::kDataParallel, 0,
                  trf("DataParallel gathers {} on this GPU", format_bytes(bytes)),
                  tr("The outputs of all GPUs are there at the peak."),
                  tr("Use DistributedDataParallel, with one process for each GPU; or compute the "
                     "loss inside the "
                     "module, so that only numbers are gathered.")};
  finding.line = index.line(*largest);
  return finding_if_saved(index, kMinSavedShare, std::move(finding), changes);
}

void keep_uneven_gpus(std::vector<DeviceReport>& devices) {
  for (DeviceReport& device : devices) {
    std::vector<uint64_t> others;
    for (const DeviceReport& other : devices)
      if (&other != &device && !other.is_host)
        others.push_back(other.peak.requested.totals.requested_bytes);
    const uint64_t typical = median_of(std::move(others));
    const uint64_t own = device.peak.requested.totals.requested_bytes;
    const bool is_uneven =
        typical > 0 && static_cast<double>(own) >= kMinUnevenRatio * static_cast<double>(typical);
    if (!is_uneven) {
      std::erase_if(device.findings,
                    [](const Finding& f) { return f.kind == FindingKind::kDataParallel; });
    }
    for (Finding& f : device.findings)
      if (f.kind == FindingKind::kDataParallel)
        f.title += trf("; it has {} more than the others", format_bytes(own - typical));
  }
}

// Pinned memory is never returned: what was needed once stays.
Patterns pinned_host(WasteIndex& index) {
  const DeviceReport& report = index.report();
  const uint64_t reserved = index.sources().curve.last.reserved_bytes;
  const uint64_t count = index.history().lifetime_of_event.size();
  if (count == 0) return {};
  TotalsWalker walker(index.events(), index.history());
  uint64_t needed = 0;
  uint64_t middle = 0;
  while (!walker.at_end()) {
    walker.step();
    if (walker.next_event() == count / 2) middle = walker.totals().reserved_bytes;
    if (walker.next_event() > count / 2) needed = std::max(needed, walker.totals().active_bytes);
  }
  const uint64_t unused = reserved - std::min(reserved, needed);
  const bool piles_up = reserved > middle && report.steps.steps.size() >= kMinRepetitions;
  if (!piles_up || unused < kMinPinnedBytes || unused * 2 < reserved) return {};
  Finding finding{
      FindingKind::kPinnedHost, unused,
      trf("Pinned host memory piles up: {} of {} are not in use", format_bytes(unused),
          format_bytes(reserved)),
      trf("In the second half of the recording at most {} were in use, and the cache still "
          "grew, from {} to {}.",
          format_bytes(needed), format_bytes(middle), format_bytes(reserved)),
      tr("Reuse pinned buffers of fixed sizes: PyTorch rounds each up to a power of two and never "
         "returns it. torch._C._host_emptyCache() returns what is free.")};
  finding.saves_reserved_bytes = unused;
  return {{std::move(finding), {}}};
}

}  // namespace vram::explain
