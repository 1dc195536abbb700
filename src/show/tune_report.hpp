// TuneReport: what `vram tune` found out, as plain values. cli/ makes it, tune_text and tune_json
// draw it.
#pragma once

#include "explain/report.hpp"
#include "replay/tune/tune.hpp"
#include "show/replay_report.hpp"

#include <optional>

namespace vram::show {

struct TuneReport : ReplaySubject {
  replay::TuneResult result;
  // The requested peak, where what was alive exceeds the capacity: who held it.
  std::optional<explain::State> at_peak;
  bool has_stacks = false;
};

inline constexpr size_t kTuneHolders = 3;  // named if no setting helps

}  // namespace vram::show
