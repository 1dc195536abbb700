// Replays for programs: vram.replay/1, documented field by field in docs/json.md. A pure function
// of the report.
#pragma once

#include "base/json.hpp"
#include "show/replay/replay_report.hpp"

#include <string>
#include <string_view>

namespace vram::show {

// A JSON document with a final newline. Keys have a fixed order; unknown values are null, never 0.
[[nodiscard]] std::string replay_json(const ReplayReport& report);

// What vram.replay/1 and vram.tune/1 have in common, as JSON: what was replayed, and the figures of
// one replay.

[[nodiscard]] Json json_subject(const ReplaySubject& subject);
[[nodiscard]] std::string_view basis_word(replay::Basis basis);
// Without the OOM and the curve.
[[nodiscard]] Json json_replayed(const replay::ReplayResult& result, bool is_recorded,
                                 const replay::Fidelity& fidelity);
// Without its place.
[[nodiscard]] Json json_oom_sizes(const replay::ReplayOom& oom);

}  // namespace vram::show
