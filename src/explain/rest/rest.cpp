#include "explain/rest/rest.hpp"

#include "trace/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::explain {
namespace {

namespace figures = trace::figures;
using Values = std::map<std::string_view, uint64_t, std::less<>>;

// A segment event this shortly before a sample may be missing in what the driver reported.
constexpr int64_t kSettledNs = 20'000'000;
// Libraries and measured growths that are listed by themselves, of each.
constexpr size_t kMaxNamed = 32;

// A reading of the driver's counters.
struct Reading {
  int64_t time_ns = 0;  // unix
  uint64_t used_bytes = 0;
  size_t figure = 0;            // its place among all figures
  uint64_t reserved_bytes = 0;  // by the allocator
  bool is_settled = true;
};

bool is_of(const trace::Figure& figure, const trace::DeviceTrace& device) {
  return figure.device == device.ordinal && device.kind == trace::DeviceKind::kGpu;
}

// The allocator's reserved bytes at each of the readings, which are in order of time.
void add_reserved(const trace::Trace& trace, const trace::DeviceTrace& device,
                  uint64_t initial_bytes, std::vector<Reading>& readings) {
  using trace::EventKind;
  uint64_t reserved = initial_bytes;
  std::optional<int64_t> last_ns;
  auto next = readings.begin();
  const auto pass = [&](int64_t until_ns) {
    for (; next != readings.end() && next->time_ns < until_ns; ++next) {
      next->reserved_bytes = reserved;
      next->is_settled =
          !last_ns || next->time_ns >= std::min(*last_ns, INT64_MAX - kSettledNs) + kSettledNs;
    }
  };
  for (const trace::Event& event : trace.events_of(device)) {
    if (!trace::is_segment_event(event.kind)) continue;
    pass(event.time_ns);
    const bool grows =
        event.kind == EventKind::kSegmentAlloc || event.kind == EventKind::kSegmentMap;
    reserved += grows ? event.size_bytes : -std::min(event.size_bytes, reserved);
    last_ns = event.time_ns;
  }
  pass(INT64_MAX);
}

std::vector<Reading> find_readings(const trace::Trace& trace, const trace::DeviceTrace& device,
                                   uint64_t initial_bytes) {
  std::vector<Reading> readings;
  for (size_t i = 0; i < trace.figures.size(); ++i) {
    const trace::Figure& figure = trace.figures[i];
    if (!is_of(figure, device) || figure.value == figures::kUnknown) continue;
    if (trace.tables.strings[figure.name] == figures::kUsed)
      readings.push_back({.time_ns = figure.time_ns, .used_bytes = figure.value, .figure = i});
  }
  std::ranges::stable_sort(readings, {}, &Reading::time_ns);
  add_reserved(trace, device, initial_bytes, readings);
  return readings;
}

// The fullest; the latest of equals. One whose reserved bytes had just changed only if there is no
// other.
const Reading& choose(const std::vector<Reading>& readings) {
  return *std::ranges::max_element(readings, std::ranges::less_equal(), [](const Reading& each) {
    return std::pair(each.is_settled, each.used_bytes);
  });
}

// The first one at which the process used the device: a context that is being created is smaller.
const Reading& first_in_use(const std::vector<Reading>& readings) {
  const auto found =
      std::ranges::find_if(readings, [](const Reading& each) { return each.reserved_bytes > 0; });
  return found == readings.end() ? readings.front() : *found;
}

// A reading, with all figures as they were then.
struct Sample {
  Reading reading;
  Values values;

  Sample(const trace::Trace& trace, const trace::DeviceTrace& device, const Reading& of)
      : reading(of) {
    for (size_t i = 0; i <= of.figure; ++i) {
      const trace::Figure& figure = trace.figures[i];
      if (is_of(figure, device)) values[trace.tables.strings[figure.name]] = figure.value;
    }
  }
  [[nodiscard]] std::optional<uint64_t> find(std::string_view name) const {
    const auto found = values.find(name);
    if (found == values.end() || found->second == figures::kUnknown) return std::nullopt;
    return found->second;
  }
  // Growth during collectives of a group whose communicator NCCL counts itself.
  [[nodiscard]] bool is_counted_by_nccl(std::string_view name) const {
    constexpr std::string_view kGroup = "growth.NCCL, group ";
    return name.starts_with(kGroup) &&
           values.contains(std::string(figures::kNccl).append(name.substr(kGroup.size())));
  }
  // Those whose name begins so, largest first.
  [[nodiscard]] std::vector<std::pair<std::string_view, uint64_t>> all_of(
      std::string_view prefix) const {
    std::vector<std::pair<std::string_view, uint64_t>> all;
    for (auto at = values.lower_bound(prefix); at != values.end(); ++at) {
      if (!at->first.starts_with(prefix)) break;
      if (at->first != figures::kCallsObserved && at->second != figures::kUnknown &&
          at->second != 0 && !is_counted_by_nccl(at->first))
        all.emplace_back(at->first.substr(prefix.size()), at->second);
    }
    std::ranges::stable_sort(all, std::ranges::greater(),
                             [](const auto& each) { return each.second; });
    return all;
  }
  // What was allocated by cudaMalloc, but not by the recorded allocator.
  [[nodiscard]] uint64_t other_mallocs() const {
    const uint64_t calls = find(figures::kAllocatorCalls).value_or(0);
    return calls - std::min(calls, reading.reserved_bytes);
  }
  [[nodiscard]] uint64_t sum_of(std::string_view prefix) const {
    uint64_t sum = 0;
    for (const auto& [name, bytes] : all_of(prefix)) sum += bytes;
    return sum;
  }
  // What the driver keeps for this process and counts itself.
  [[nodiscard]] uint64_t counted_by_driver() const {
    return find(figures::kGraphs).value_or(0) + find(figures::kDefaultPool).value_or(0);
  }
};

// Signed, since what was observed at different moments may exceed the whole.
int64_t difference(uint64_t a, uint64_t b) { return static_cast<int64_t>(a - b); }

int64_t wrapping_plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

struct Others {
  std::optional<uint64_t> bytes;
  std::string_view basis;
};

Others others_at(const Sample& sample) {
  if (const auto listed = sample.find(figures::kOthers))
    return {listed, tr("the driver's list of processes")};
  if (const auto before = sample.find(figures::kUsedBefore))
    return {before, tr("used before this process had a context")};
  return {};
}

// This process's memory on the device, inside and outside of the allocator.
std::optional<uint64_t> own_bytes(const Sample& sample) {
  if (const auto own = sample.find(figures::kProcess)) return own;
  const auto others = others_at(sample).bytes;
  if (!others) return std::nullopt;
  return sample.reading.used_bytes - std::min(*others, sample.reading.used_bytes);
}

class Table {
 public:
  explicit Table(Rest& rest) : rest_(rest) {}

  void add(RestKind kind, std::string name, uint64_t bytes, std::string_view basis) {
    rest_.items.push_back({kind, std::move(name), static_cast<int64_t>(bytes), std::string(basis)});
  }
  void lacks(std::string_view what) { rest_.not_observed.emplace_back(what); }
  [[nodiscard]] int64_t sum() const {
    int64_t sum = 0;
    for (const RestItem& item : rest_.items) sum = wrapping_plus(sum, item.bytes);
    return sum;
  }

 private:
  Rest& rest_;
};

void add_named(const Sample& sample, std::string_view prefix, RestKind kind, std::string_view basis,
               Table& table) {
  const auto all = sample.all_of(prefix);
  uint64_t others = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= kMaxNamed) {
      others += all[i].second;
      continue;
    }
    table.add(kind, std::string(all[i].first.substr(0, trace::kMaxNameBytes)), all[i].second,
              basis);
  }
  if (others > 0) table.add(kind, tr("others"), others, basis);
}

// The first sample has the context, and what was loaded until then.
void add_context(const Sample& first, const Sample& chosen, Table& table) {
  const auto own = own_bytes(first);
  const uint64_t known = first.reading.reserved_bytes + first.sum_of(figures::kLibrary) +
                         first.sum_of(figures::kGrowth) + first.sum_of(figures::kNccl) +
                         first.counted_by_driver() + first.other_mallocs();
  if (!own || *own < known) return table.lacks(tr("the CUDA context"));
  if (chosen.find(figures::kUsedBefore)) {
    table.add(RestKind::kContext, tr("CUDA context"), *own - known,
              tr("the first sample after the process began to use the device"));
  } else {
    table.add(RestKind::kContext,
              tr("CUDA context, modules and libraries from before the recording"), *own - known,
              tr("the first sample of the recording"));
  }
}

void add_counted(const Sample& sample, std::string_view figure, RestKind kind,
                 std::string_view name, std::string_view missing, Table& table) {
  const auto bytes = sample.find(figure);
  if (!bytes) return table.lacks(missing);
  if (*bytes > 0) table.add(kind, std::string(name), *bytes, tr("the driver's own count"));
}

// What this process holds outside of the allocator.
void add_outside(const Sample& first, const Sample& chosen, uint64_t own, Table& table) {
  const int64_t before = table.sum();
  add_context(first, chosen, table);
  const bool are_calls_observed = chosen.find(figures::kCallsObserved).value_or(0) != 0;
  add_named(chosen, figures::kLibrary, RestKind::kLibrary, tr("its calls of the driver"), table);
  if (const uint64_t bytes = chosen.other_mallocs(); bytes > 0)
    table.add(RestKind::kLibrary, tr("cudaMalloc of others than the allocator"), bytes,
              tr("calls of the shared runtime"));
  if (!are_calls_observed) {
    add_named(chosen, figures::kNccl, RestKind::kLibrary, tr("NCCL's own count"), table);
    add_named(chosen, figures::kGrowth, RestKind::kGrowth, tr("measured before and after"), table);
    table.lacks(tr("what each library allocates (recorded by `vram run --record`)"));
  }
  add_counted(chosen, figures::kGraphs, RestKind::kGraphs, tr("memory nodes of CUDA graphs"),
              tr("memory nodes of CUDA graphs"), table);
  add_counted(chosen, figures::kDefaultPool, RestKind::kPool, tr("cudaMallocAsync's pool"),
              tr("cudaMallocAsync's pool"), table);
  const int64_t left = wrapping_plus(difference(own, chosen.reading.reserved_bytes),
                                     wrapping_plus(before, -table.sum()));
  if (are_calls_observed && left > 0) {
    table.add(RestKind::kModules, tr("modules, kernel stacks and other memory of the driver"),
              static_cast<uint64_t>(left),
              tr("the process's memory that no call of the driver allocated"));
  } else if (!are_calls_observed) {
    table.lacks(tr("modules and kernel stacks"));
  }
}

}  // namespace

std::optional<Rest> find_rest(const trace::Trace& trace, const trace::DeviceTrace& device,
                              const EventClock& clock, uint64_t initial_bytes) {
  const std::vector<Reading> readings = find_readings(trace, device, initial_bytes);
  if (readings.empty() || clock.kind() != Clock::kTime) return std::nullopt;
  const Sample first(trace, device, first_in_use(readings));
  const Sample sample(trace, device, choose(readings));
  Rest rest;
  rest.time_ns = static_cast<int64_t>(static_cast<uint64_t>(sample.reading.time_ns) -
                                      static_cast<uint64_t>(clock.origin_unix_ns()));
  rest.sample_count = readings.size();
  rest.total_bytes = sample.find(figures::kTotal);
  const uint64_t driver = sample.find(figures::kDriver).value_or(0);
  rest.used_bytes = sample.reading.used_bytes + driver;
  Table table(rest);
  table.add(RestKind::kAllocator, tr("allocator"), sample.reading.reserved_bytes,
            tr("the recorded events"));
  if (driver > 0) table.add(RestKind::kDriver, tr("driver and firmware"), driver, tr("the driver"));
  const auto [others, basis] = others_at(sample);
  if (others) {
    table.add(RestKind::kOthers, tr("other processes"), *others, basis);
  } else {
    table.lacks(tr("other processes"));
  }
  if (const auto own = own_bytes(sample)) {
    add_outside(first, sample, *own, table);
  } else {
    table.lacks(tr("this process's share of the rest"));
  }
  rest.unnamed_bytes =
      wrapping_plus(static_cast<int64_t>(rest.used_bytes), wrapping_plus(0, -table.sum()));
  return rest;
}

std::optional<uint64_t> usable_bytes(const trace::Trace& trace, const trace::DeviceTrace& device) {
  std::optional<uint64_t> total;
  uint64_t driver = 0;
  for (const trace::Figure& figure : trace.figures) {
    if (!is_of(figure, device) || figure.value == figures::kUnknown) continue;
    const std::string_view name = trace.tables.strings[figure.name];
    if (name == figures::kTotal) total = figure.value;
    if (name == figures::kDriver) driver = figure.value;
  }
  if (!total || *total < driver) return std::nullopt;
  return *total - driver;
}

}  // namespace vram::explain
