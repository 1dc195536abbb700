// DeviceView: what exports need to know about the blocks of one device beyond the report. Computed
// again, since explain() does not keep it. Views the recording. GroupNames: the names that the
// report has for them. Internal to exports/.
#pragma once

#include "explain/history/history.hpp"
#include "explain/moment/breakdown.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/names/names.hpp"
#include "explain/report.hpp"
#include "explain/site/scopes.hpp"
#include "reports/recording.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace vram::exports {

struct DeviceView {
  const trace::Trace& trace;
  const trace::DeviceTrace& device;
  const explain::DeviceReport& report;
  explain::History history;
  explain::EventClock clock;
  explain::Scopes scopes;
  explain::Names names;
  explain::Curve no_curve = {};  // names do not depend on totals

  DeviceView(const reports::Recording& recording, size_t index)
      : trace(recording.trace),
        device(recording.trace.devices[index]),
        report(recording.report.devices[index]),
        history(explain::replay_history(trace, device)),
        clock(trace, device),
        scopes(explain::build_scopes(trace, device)),
        names(explain::find_names(trace, device, history)) {}

  [[nodiscard]] explain::Sources sources() const {
    return {trace, device, history, clock, no_curve, scopes, names};
  }
};

// The names of groups by one dimension, each made once.
class GroupNames {
 public:
  GroupNames(const DeviceView& view, explain::Dimension by)
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
  explain::Sources sources_;
  explain::LiveSet any_moment_;
  explain::Grouping grouping_;
  std::unordered_map<uint64_t, std::string> names_;
};

}  // namespace vram::exports
