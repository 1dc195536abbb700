// The parts of screens about replays: what was replayed and on what, and several replays compared.
#pragma once

#include "show/draw/page.hpp"
#include "show/replay/replay_report.hpp"

#include <cstdint>
#include <string>

namespace vram::show {

// Draws the file, the program, the simulated device, and what the recording lacks.
void draw_subject(const ReplaySubject& subject, Page& page);

// Why a replay without other problems is only an estimate: the clause after "because".
[[nodiscard]] std::string doubt_text(const replay::Fidelity& fidelity);

// The text in place of a saving if the recorded peak is before the recording.
[[nodiscard]] std::string peak_before_text(const replay::Fidelity& fidelity);

// "0 s" for a duration of 0.
[[nodiscard]] std::string duration_text(int64_t duration_ns);

// "ok", "OOM", or "3 of 9" where addresses decide.
[[nodiscard]] Line outcome_of(const replay::ReplayResult& result);

// One line each with the best figures marked; nothing for a single replay.
void draw_comparison(const ReplayReport& report, Page& page);

// States how the best of the other allocators differs from the recorded settings, in bytes. Empty
// if only these were replayed.
[[nodiscard]] std::string difference_sentence(const ReplayReport& report);

}  // namespace vram::show
