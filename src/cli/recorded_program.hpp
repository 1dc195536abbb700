// From a recording to the program that a simulated allocator is to serve, and the memory it has
// there: shared by the commands that replay.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "replay/program.hpp"
#include "show/replay_report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vram::cli {

struct RecordedProgram {
  const trace::DeviceTrace* device = nullptr;  // in the trace
  replay::Program program;
  std::optional<uint64_t> limit_bytes;  // that the recorded program met, where it met one
};

// --device, into `target`.
[[nodiscard]] Option replayed_device_option(std::string& target);
// The program of the GPU that --device names (`option` empty: of the one with the largest peak).
// Shows progress. Errors say which there are, and where there is nothing to replay.
[[nodiscard]] Result<RecordedProgram> recorded_program(const trace::Trace& trace,
                                                       const std::string& option,
                                                       const Console& console);

struct Capacity {
  std::optional<uint64_t> bytes = {};
  show::CapacitySource source = show::CapacitySource::kUnlimited;
  bool recorded_limit_unknown = false;  // the recording met one, and none was named instead
};

// --capacity, into `target`.
[[nodiscard]] Option capacity_option(std::string& target);
// "16GiB", "unlimited"; empty: where the recorded program was refused memory, the limit it met.
[[nodiscard]] Result<Capacity> capacity_for(const RecordedProgram& recorded,
                                            const std::string& option);

// --lag, into `target`; `option` empty: the default.
[[nodiscard]] Option lag_option(std::string& target);
[[nodiscard]] Result<int64_t> lag_for(const std::string& option);

// The head of a report about replays, without the lag.
void fill_subject(const trace::Trace& trace, const RecordedProgram& recorded,
                  const Capacity& capacity, show::ReplaySubject& subject);

}  // namespace vram::cli
