// How exact replays of a recording are, and what that means for the figures of one replay. Pure.
#pragma once

#include "replay/program.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/replay.hpp"
#include "replay/result.hpp"

#include <optional>

namespace vram::replay {

// `own`: a replay of the recorded settings under the limit that the recorded program met.
[[nodiscard]] Fidelity fidelity_of(const Program& program, const ReplayResult& own);
// The same, with such a replay.
[[nodiscard]] Fidelity prove(const Program& program, const AllocatorSpec& recorded,
                             const std::optional<RecordedLimit>& limit);

// is_recorded: a replay of the recorded settings, at whatever capacity.
[[nodiscard]] Basis basis_of(const ReplayResult& result, bool is_recorded,
                             const Fidelity& fidelity);

}  // namespace vram::replay
