// Sources: the data of one device from which moments are computed. Views; the creator owns the
// parts.
#pragma once

#include "explain/history/history.hpp"
#include "explain/moment/clock.hpp"
#include "explain/moment/curve.hpp"
#include "explain/names/names.hpp"
#include "explain/site/scopes.hpp"
#include "trace/trace.hpp"

namespace vram::explain {

struct Sources {
  const trace::Trace& trace;
  const trace::DeviceTrace& device;
  const History& history;
  const EventClock& clock;
  const Curve& curve;
  const Scopes& scopes;
  const Names& names;
};

}  // namespace vram::explain
