// Sources: what is known of one device before any moment of it is looked at. Views; whoever makes
// it keeps the parts.
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
