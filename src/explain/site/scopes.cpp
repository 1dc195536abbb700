#include "explain/site/scopes.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

namespace vram::explain {
namespace {

// How many open scopes are searched for the parent of a new one: real nesting is a dozen deep,
// hostile files are not.
constexpr size_t kMaxOpenSearched = 64;

uint32_t annotation_device(const trace::Trace& trace, const trace::DeviceTrace& device) {
  std::map<uint32_t, size_t> counts;
  for (const trace::Annotation& a : trace.annotations) ++counts[a.device];
  const bool own = device.kind == trace::DeviceKind::kGpu && counts.count(device.ordinal) != 0;
  if (own || counts.empty()) return device.ordinal;
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// Which begun scope an end belongs to. Annotations don't say their thread, so a scope is taken to
// lie inside the one begun last that is still open, and a thread ends no scope before those inside
// it: of the open scopes of a name the latest ends that has nothing open inside. Where each has
// something open inside, threads overlap, and the latest ends.
class OpenScopes {
 public:
  void begin(trace::StringId name, uint32_t scope) {
    around_.resize(scope + 1, kNoScope);
    inside_.resize(scope + 1, 0);
    if (!open_.empty()) {
      around_[scope] = *open_.rbegin();
      ++inside_[around_[scope]];
    }
    open_.insert(scope);
    of_name_[name].push_back(scope);
  }

  // kNoScope: none of this name is open.
  uint32_t end(trace::StringId name) {
    std::vector<uint32_t>& begun = of_name_[name];
    if (begun.empty()) return kNoScope;
    auto ended = begun.end() - 1;
    for (size_t k = 0; k < std::min(begun.size(), kMaxOpenSearched); ++k) {
      const auto candidate = begun.end() - 1 - static_cast<ptrdiff_t>(k);
      if (inside_[*candidate] > 0) continue;
      ended = candidate;
      break;
    }
    const uint32_t scope = *ended;
    begun.erase(ended);
    open_.erase(scope);
    if (around_[scope] != kNoScope) --inside_[around_[scope]];
    return scope;
  }

  [[nodiscard]] const std::unordered_map<trace::StringId, std::vector<uint32_t>>& left() const {
    return of_name_;
  }

 private:
  std::set<uint32_t> open_;
  std::unordered_map<trace::StringId, std::vector<uint32_t>> of_name_;  // open ones, by begin
  std::vector<uint32_t> around_;                                        // by scope
  std::vector<uint32_t> inside_;  // open scopes directly inside
};

// A begin left over lost its end: it lasts to the next begin of its name.
void match_ends(const trace::Trace& trace, uint32_t device, Scopes* out) {
  OpenScopes open;
  std::unordered_map<trace::StringId, std::vector<uint32_t>> of_name;
  for (const trace::Annotation& a : trace.annotations) {
    if (a.device != device) continue;
    if (a.is_begin) {
      const auto index = static_cast<uint32_t>(out->all.size());
      open.begin(a.name, index);
      of_name[a.name].push_back(index);
      out->all.push_back(
          {a.name, a.time_ns, std::numeric_limits<int64_t>::max(), 0, 0, kNoScope, 0, false});
      continue;
    }
    const uint32_t ended = open.end(a.name);
    if (ended == kNoScope) {
      ++out->unmatched_ends;
      continue;
    }
    Scope& scope = out->all[ended];
    scope.end_ns = std::max(a.time_ns, scope.begin_ns);
    scope.closed = true;
  }
  for (const auto& [name, begun] : open.left()) {
    const std::vector<uint32_t>& same = of_name[name];
    for (const uint32_t index : begun) {
      ++out->missing_ends;
      const auto next = std::upper_bound(same.begin(), same.end(), index);
      if (next != same.end())
        out->all[index].end_ns = std::max(out->all[index].begin_ns, out->all[*next].begin_ns);
    }
  }
}

// A parent is the innermost open scope that lasts at least as long. Regions of other threads may
// overlap without nesting; a scope whose end is unknown ends with the one around it.
void nest(Scopes* out) {
  std::stable_sort(out->all.begin(), out->all.end(), [](const Scope& a, const Scope& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < out->all.size(); ++i) {
    Scope& scope = out->all[i];
    while (!open.empty() && out->all[open.back()].end_ns <= scope.begin_ns) open.pop_back();
    const size_t lowest = open.size() > kMaxOpenSearched ? open.size() - kMaxOpenSearched : 0;
    for (size_t k = open.size(); k-- > lowest;) {
      const Scope& around = out->all[open[k]];
      if (around.end_ns <= scope.begin_ns) continue;
      if (around.end_ns < scope.end_ns && scope.closed) continue;
      scope.end_ns = std::min(scope.end_ns, around.end_ns);
      scope.parent = open[k];
      scope.depth = around.depth + 1;
      break;
    }
    open.push_back(i);
  }
}

// An event at the very time of an edge belongs to what comes after it. Times may go backwards;
// index order is the truth, so an edge lies before the first event from which on the clock has
// reached it.
void place_on_events(std::span<const trace::Event> events, Scopes* out) {
  struct Edge {
    int64_t time_ns;
    uint32_t scope;
    bool is_end;
  };
  std::vector<Edge> edges;
  edges.reserve(out->all.size() * 2);
  for (uint32_t i = 0; i < out->all.size(); ++i) {
    edges.push_back({out->all[i].begin_ns, i, false});
    edges.push_back({out->all[i].end_ns, i, true});
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.time_ns < b.time_ns; });
  size_t event = 0;
  for (const Edge& edge : edges) {
    while (event < events.size() && events[event].time_ns < edge.time_ns) ++event;
    (edge.is_end ? out->all[edge.scope].end_event : out->all[edge.scope].first_event) = event;
  }
  const int64_t last_ns = events.empty() ? 0 : events.back().time_ns;
  for (Scope& scope : out->all) {
    if (scope.end_ns == std::numeric_limits<int64_t>::max())
      scope.end_ns = std::max(last_ns, scope.begin_ns);
  }
}

// Of the scopes around an event the one begun last is innermost.
void find_spans(Scopes* out) {
  struct Edge {
    uint64_t event;
    uint32_t scope;
    bool is_end;
  };
  std::vector<Edge> edges;
  for (uint32_t i = 0; i < out->all.size(); ++i) {
    if (out->all[i].first_event >= out->all[i].end_event) continue;
    edges.push_back({out->all[i].first_event, i, false});
    edges.push_back({out->all[i].end_event, i, true});
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.event < b.event; });
  std::set<uint32_t> around;
  for (size_t i = 0; i < edges.size(); ++i) {
    if (edges[i].is_end) {
      around.erase(edges[i].scope);
    } else {
      around.insert(edges[i].scope);
    }
    if (i + 1 < edges.size() && edges[i + 1].event == edges[i].event) continue;
    out->spans.push_back({edges[i].event, around.empty() ? kNoScope : *around.rbegin()});
  }
}

}  // namespace

uint32_t Scopes::innermost_at(uint64_t event) const {
  const auto after =
      std::upper_bound(spans.begin(), spans.end(), event,
                       [](uint64_t e, const Span& span) { return e < span.first_event; });
  return after == spans.begin() ? kNoScope : std::prev(after)->scope;
}

Scopes build_scopes(const trace::Trace& trace, const trace::DeviceTrace& device) {
  Scopes scopes;
  if (!trace.has_time || trace.annotations.empty()) return scopes;
  match_ends(trace, annotation_device(trace, device), &scopes);
  nest(&scopes);
  place_on_events(trace.events_of(device), &scopes);
  find_spans(&scopes);
  return scopes;
}

}  // namespace vram::explain
