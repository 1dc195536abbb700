// What was replayed, and on what: how every screen about replays begins.
#pragma once

#include "show/page.hpp"
#include "show/replay_report.hpp"

#include <cstdint>
#include <string>

namespace vram::show {

// The file, the program, the device that stood in; and what the recording lacks.
void draw_subject(const ReplaySubject& subject, Page& page);

// Why a replay without other faults is no more than an estimate: the clause after "because".
[[nodiscard]] std::string doubt_text(const replay::Fidelity& fidelity);

// What is said instead of a saving where the recorded peak lies before the recording.
[[nodiscard]] std::string peak_before_text(const replay::Fidelity& fidelity);

// "0 s" where nothing took time.
[[nodiscard]] std::string duration_text(int64_t duration_ns);

// "ok", "OOM", or "3 of 9" where addresses decide.
[[nodiscard]] Line outcome_of(const replay::ReplayResult& result);

}  // namespace vram::show
