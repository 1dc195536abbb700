// From a recording to the program that a simulated allocator is to serve, and the memory it has
// there: shared by the commands that replay.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
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
};

// --device, into `target`.
[[nodiscard]] Option replayed_device_option(std::string& target);
// The program of the GPU that --device names (`option` empty: of the one with the largest peak).
// Errors say which there are, and where there is nothing to replay.
[[nodiscard]] Result<RecordedProgram> recorded_program(const trace::Trace& trace,
                                                       const std::string& option);

struct Capacity {
  std::optional<uint64_t> bytes;
  show::CapacitySource source = show::CapacitySource::kUnlimited;
};

// --capacity, into `target`.
[[nodiscard]] Option capacity_option(std::string& target);
// "16GiB", "unlimited"; empty: where the recorded program was refused memory, the limit it met.
[[nodiscard]] Result<Capacity> capacity_for(const replay::Program& program,
                                            const std::string& option);

// The most that the program itself had requested at once.
[[nodiscard]] uint64_t peak_requested_bytes(const replay::Program& program);

}  // namespace vram::cli
