#include "explain/diff/peaks.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "explain/explain.hpp"
#include "explain/history/history.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/names/names.hpp"
#include "explain/site/scopes.hpp"
#include "explain/site/site.hpp"
#include "explain/steps/steps.hpp"
#include "trace/lost_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace vram::explain {
namespace {

// Deeper callers are seldom what tells two places apart, and each is compared and stored.
constexpr size_t kMaxCalls = 8;

// Sums the blocks of each place. The key is what places of one recording differ in.
class Places {
 public:
  // The place of this key; a new one is made by make().
  template <typename Make>
  void add(const std::string& key, const Lifetime& lifetime, Make&& make) {
    const auto [found, is_new] = index_.try_emplace(key, sites_.size());
    if (is_new) sites_.push_back(make());
    PeakSite& site = sites_[found->second];
    site.bytes += lifetime.requested_bytes;
    ++site.count;
  }

  // Largest first. Equal for equal recordings.
  [[nodiscard]] std::vector<PeakSite> sorted() && {
    std::vector<std::pair<std::string, size_t>> order(index_.begin(), index_.end());
    std::ranges::sort(order, [&](const auto& a, const auto& b) {
      const uint64_t a_bytes = sites_[a.second].bytes;
      const uint64_t b_bytes = sites_[b.second].bytes;
      return a_bytes != b_bytes ? a_bytes > b_bytes : a.first < b.first;
    });
    std::vector<PeakSite> result;
    for (const auto& [key, i] : order) result.push_back(std::move(sites_[i]));
    return result;
  }

 private:
  std::unordered_map<std::string, size_t> index_;
  std::vector<PeakSite> sites_;
};

// The live blocks of one device at its peak, grouped in each way.
class PeakSites {
 public:
  PeakSites(const Sources& sources, const LiveSet& live, const Steps& steps)
      : sources_(sources), frames_(sources.trace.tables), ordered_(live.lifetimes) {
    const auto holds_peak = [&](const Step& step) {
      const auto event = static_cast<uint64_t>(std::max<int64_t>(live.event, 0));
      return event >= step.first_event && event < step.first_event + step.event_count;
    };
    const auto step = std::ranges::find_if(steps.steps, holds_peak);
    if (step != steps.steps.end()) find_begin(step->first_event);
    std::ranges::sort(ordered_);  // lifetimes are in order of allocation
  }

  void fill(DevicePeak& peak) const {
    peak.sites[static_cast<size_t>(SiteBasis::kStack)] = by_stack();
    peak.sites[static_cast<size_t>(SiteBasis::kName)] = by_name();
    peak.sites[static_cast<size_t>(SiteBasis::kPosition)] = by_position();
  }

 private:
  void find_begin(uint64_t first_event) {
    const auto& lifetimes = sources_.history.lifetimes;
    const auto is_earlier = [&](const Lifetime& l) {
      return l.alloc_event == kBeforeRecording || l.alloc_event < first_event;
    };
    step_begin_ = static_cast<uint32_t>(
        std::partition_point(lifetimes.begin(), lifetimes.end(), is_earlier) - lifetimes.begin());
  }

  [[nodiscard]] std::vector<Frame> calls_of(trace::StackId stack) const {
    const trace::Tables& tables = sources_.trace.tables;
    std::vector<Frame> calls;
    for (const trace::FrameId id : tables.stacks[stack]) {
      if (calls.size() == kMaxCalls) break;
      if (frames_.is_user(id)) calls.push_back(source_of(tables, tables.frames[id]));
    }
    if (calls.empty()) calls.push_back(source_of(tables, tables.frames[frames_.frame(stack)]));
    return calls;
  }

  [[nodiscard]] std::vector<PeakSite> by_stack() const {
    if (!sources_.trace.has_stacks) return {};
    const trace::Tables& tables = sources_.trace.tables;
    struct Known {
      std::string key;
      PeakSite site;
    };
    std::unordered_map<trace::StackId, Known> known;
    Places places;
    bool has_stack = false;
    for (const uint32_t id : ordered_) {
      const Lifetime& lifetime = sources_.history.lifetimes[id];
      if (lifetime.stack == 0) {
        const std::string name = name_of(id);
        places.add(name, lifetime, [&] { return PeakSite{.name = name}; });
        continue;
      }
      has_stack = true;
      const auto [found, is_new] = known.try_emplace(lifetime.stack);
      if (is_new) {
        PeakSite& site = found->second.site;
        site.calls = calls_of(lifetime.stack);
        site.name = frame_name(tables, tables.frames[frames_.frame(lifetime.stack)]);
        for (const Frame& call : site.calls)
          found->second.key += fmt::format("\n{}\n{}\n{}", call.file, call.function, call.line);
      }
      places.add(found->second.key, lifetime, [&] { return found->second.site; });
    }
    if (!has_stack) return {};
    return std::move(places).sorted();
  }

  // The program's name for a block, or why it has none.
  [[nodiscard]] std::string name_of(uint32_t id) const {
    std::string name = own_name_of(id);
    if (!name.empty()) return name;
    const bool is_before = sources_.history.lifetimes[id].alloc_event == kBeforeRecording;
    return std::string(is_before ? kBeforeName : kNoStackName);
  }

  // "" if the program has none.
  [[nodiscard]] std::string own_name_of(uint32_t id) const {
    const trace::Tables& tables = sources_.trace.tables;
    const Lifetime& lifetime = sources_.history.lifetimes[id];
    if (const Names::Label label = sources_.names.label(id); label != 0)
      return sources_.names.text(label);
    if (lifetime.alloc_event == kBeforeRecording) return "";
    trace::StringId text = tables.contexts[lifetime.context].user_metadata;
    const uint32_t scope = sources_.scopes.innermost_at(lifetime.alloc_event);
    if (text == 0 && scope != kNoScope) text = sources_.scopes.all[scope].name;
    return limit_bytes(tables.strings[text], trace::kMaxNameBytes);
  }

  // Nothing if most memory has no name: the order of allocations says more then.
  [[nodiscard]] std::vector<PeakSite> by_name() const {
    Places places;
    PeakSite rest{.name = std::string(kNoScopeName)};
    uint64_t named_bytes = 0;
    for (const uint32_t id : ordered_) {
      const Lifetime& lifetime = sources_.history.lifetimes[id];
      const std::string name = own_name_of(id);
      if (name.empty()) {
        rest.bytes += lifetime.requested_bytes;
        ++rest.count;
        continue;
      }
      named_bytes += lifetime.requested_bytes;
      places.add(name, lifetime, [&] { return PeakSite{.name = name}; });
    }
    if (named_bytes == 0 || named_bytes < (named_bytes + rest.bytes) / 2) return {};
    std::vector<PeakSite> sites = std::move(places).sorted();
    if (rest.count > 0) sites.push_back(std::move(rest));
    return sites;
  }

  // Runs of equal blocks, in order of allocation.
  [[nodiscard]] std::vector<PeakSite> by_position() const {
    std::vector<PeakSite> sites;
    uint64_t block_bytes = 0;
    for (const uint32_t id : ordered_) {
      const Lifetime& lifetime = sources_.history.lifetimes[id];
      const bool is_before = lifetime.alloc_event == kBeforeRecording;
      const bool continues_run =
          !sites.empty() && (is_before || (sites.back().name != kBeforeName &&
                                           lifetime.requested_bytes == block_bytes));
      if (!continues_run) {
        sites.push_back({.name = is_before ? std::string(kBeforeName) : position_name(id)});
        block_bytes = lifetime.requested_bytes;
      }
      sites.back().bytes += lifetime.requested_bytes;
      ++sites.back().count;
    }
    return sites;
  }

  // "4 MiB blocks, allocation 17 of the step"
  [[nodiscard]] std::string position_name(uint32_t id) const {
    const uint64_t bytes = sources_.history.lifetimes[id].requested_bytes;
    const uint32_t before = static_cast<uint32_t>(sources_.history.before_recording_count);
    const bool is_in_step = step_begin_ && id >= *step_begin_;
    const uint32_t first = is_in_step ? *step_begin_ : before;
    return fmt::format("{}, allocation {} {}", size_class_name(bytes), format_count(id - first + 1),
                       is_in_step ? "of the step" : "of the recording");
  }

  const Sources& sources_;
  mutable UserFrames frames_;           // caches what it finds
  std::optional<uint32_t> step_begin_;  // the first lifetime of the step that has the peak
  std::vector<uint32_t> ordered_;
};

DevicePeak find_peak(const trace::Trace& trace, const trace::DeviceTrace& device, RunPeaks& run) {
  constexpr uint32_t kOneSlice = 1;  // no timeline is drawn
  const EventClock clock(trace, device);
  const History history = replay_history(trace, device);
  const Curve curve = draw_curve(trace, device, history, clock, kOneSlice);
  const Scopes scopes = build_scopes(trace, device);
  const Names names = find_names(trace, device, history);
  const Steps steps = find_steps(trace, device, history, scopes, clock.origin_unix_ns());
  const Sources sources{trace, device, history, clock, curve, scopes, names};
  const std::array events = {curve.peak.requested.event};
  const std::vector<LiveSet> live = gather_live(trace, device, history, events);

  DevicePeak peak;
  peak.rank = run.rank;
  peak.is_host = device.kind == trace::DeviceKind::kHost;
  peak.ordinal = device.ordinal;
  peak.requested_bytes = curve.peak.requested.totals.requested_bytes;
  peak.reserved_bytes = curve.peak.reserved.totals.reserved_bytes;
  peak.steps = steps.steps.size();
  peak.ooms = oom_events(trace.events_of(device)).size();
  PeakSites(sources, live.front(), steps).fill(peak);

  if (device.ring_overflowed && run.incomplete.empty())
    run.incomplete = tr("the recorder's ring overflowed, so that its beginning is missing");
  if (trace.has_time && device.event_count > 0) {
    const int64_t begin_ns = trace.events[device.first_event].time_ns;
    run.begin_ns = std::min(run.begin_ns.value_or(begin_ns), begin_ns);
    run.end_ns =
        std::max(run.end_ns, trace.events[device.first_event + device.event_count - 1].time_ns);
  }
  return peak;
}

}  // namespace

Result<RunPeaks> find_peaks(const trace::Trace& trace) {
  VRAM_TRY(check_contents(trace));
  RunPeaks run;
  run.path = trace.origin.path;
  run.rank = number_about(trace, "rank");
  if (trace.origin.truncated_at_byte) {
    run.incomplete =
        trf("the file is truncated at byte {}", format_count(*trace.origin.truncated_at_byte));
  }
  for (const trace::DeviceTrace& device : trace.devices)
    run.devices.push_back(find_peak(trace, device, run));
  const uint64_t lost = trace::lost_events(trace);
  if (lost > 0 && run.incomplete.empty())
    run.incomplete = trf("{} events were lost while it was recorded", format_count(lost));
  return run;
}

}  // namespace vram::explain
