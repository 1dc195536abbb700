// DeviceView: what exports need to know about the blocks of one device beyond the report. Computed
// again, since explain() does not keep it. Views the recording. Internal to exports/.
#pragma once

#include "explain/history/history.hpp"
#include "explain/moment/curve.hpp"
#include "explain/moment/state.hpp"
#include "explain/names/names.hpp"
#include "explain/report.hpp"
#include "explain/site/scopes.hpp"
#include "reports/recording.hpp"

#include <cstddef>

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

}  // namespace vram::exports
