// DeviceView: what is known about the blocks of one device beyond the report, for exports and
// pages. Computed again, since explain() does not keep it. Views the trace and the report.
// GroupNames: the names that the report has for groups of blocks.
#pragma once

#include "explain/history/history.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/names/names.hpp"
#include "explain/report.hpp"
#include "explain/site/scopes.hpp"
#include "trace/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace vram::explain {

struct DeviceView {
  const trace::Trace& trace;
  const trace::DeviceTrace& device;
  const DeviceReport& report;
  History history;
  EventClock clock;
  Scopes scopes;
  Names names;
  Curve no_curve = {};  // names do not depend on totals

  // `index`: of the device, in the trace and in the report, which is of this trace.
  DeviceView(const trace::Trace& of, const Report& explained, size_t index)
      : trace(of),
        device(of.devices[index]),
        report(explained.devices[index]),
        history(replay_history(trace, device)),
        clock(trace, device),
        scopes(build_scopes(trace, device)),
        names(find_names(trace, device, history)) {}

  [[nodiscard]] Sources sources() const {
    return {trace, device, history, clock, no_curve, scopes, names};
  }
};

// The names of groups by one dimension, each made once.
class GroupNames {
 public:
  GroupNames(const DeviceView& view, Dimension by)
      : sources_(view.sources()), grouping_(sources_, any_moment_, by) {}
  GroupNames(const GroupNames&) = delete;
  GroupNames& operator=(const GroupNames&) = delete;
  ~GroupNames() = default;

  [[nodiscard]] uint64_t key(uint32_t lifetime) { return grouping_.key(lifetime); }
  [[nodiscard]] const std::string& name(uint32_t lifetime) {
    auto [entry, is_new] = names_.try_emplace(grouping_.key(lifetime));
    if (is_new) entry->second = grouping_.name(lifetime);
    return entry->second;
  }

 private:
  Sources sources_;
  LiveSet any_moment_;
  Grouping grouping_;
  std::unordered_map<uint64_t, std::string> names_;
};

}  // namespace vram::explain
