// From a recording to the program that a simulated allocator is to serve, and the memory it has
// there: shared by the commands that replay.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/console.hpp"
#include "replay/program.hpp"
#include "replay/recorded_limit.hpp"
#include "show/replay/replay_report.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::cli {

struct RecordedProgram {
  const trace::DeviceTrace* device = nullptr;  // in the trace
  replay::Program program;
  std::optional<replay::RecordedLimit>
      limit;  // the limit that the recorded program reached, if it did
  replay::Fidelity fidelity;
};

// --device, into `target`.
[[nodiscard]] Option replayed_device_option(std::optional<uint32_t>& target);
// Returns the program of this GPU, or of the one with the largest peak. Shows progress. Errors list
// the GPUs, or state that there is nothing to replay.
[[nodiscard]] Result<RecordedProgram> recorded_program(const trace::Trace& trace,
                                                       std::optional<uint32_t> device,
                                                       const Console& console);

struct Capacity {
  std::optional<uint64_t> bytes = {};
  bool is_fraction = false;  // a memory fraction that the recorded program had set
  show::CapacitySource source = show::CapacitySource::kUnlimited;
  std::string card = {};                // the card whose memory it is, if one was given
  bool recorded_limit_unknown = false;  // the bytes are assumed: RecordedLimit::is_assumed
};

// The memory of a card that is available to a program's allocator: what the driver leaves to
// programs, minus the program's CUDA context. Constant data and pure functions.

struct CardMemory {
  std::string name;            // "RTX 4090", or the size that was named
  uint64_t program_bytes = 0;  // cudaMemGetInfo's total: without the driver's own share
  uint64_t context_bytes = 0;  // the context and the kernels that libraries load into it
  std::string_view source;     // of these figures
  [[nodiscard]] uint64_t allocator_bytes() const {
    return program_bytes - (context_bytes < program_bytes ? context_bytes : program_bytes);
  }
};

// A card's name ("RTX 4090", "nvidia h200") or its nominal memory ("24GiB"). Errors list the known
// names.
[[nodiscard]] Result<CardMemory> find_card(std::string_view text);

struct CapacityOptions {
  std::optional<Capacity> capacity;
  std::optional<CardMemory> gpu;
  std::optional<uint64_t> context_bytes;
};
// --capacity, --gpu and --context, into `targets`.
[[nodiscard]] std::vector<Option> capacity_options(CapacityOptions& targets);
// The memory available to the allocator: --capacity, or what a card leaves to it. Without either:
// the limit of the recorded program, if it was refused memory.
[[nodiscard]] Result<Capacity> capacity_for(const RecordedProgram& recorded,
                                            const CapacityOptions& options);

// --lag, into `target`.
[[nodiscard]] Option lag_option(int64_t& target_ns);

// The head of a report about replays, without the lag.
void fill_subject(const trace::Trace& trace, const RecordedProgram& recorded,
                  const Capacity& capacity, show::ReplaySubject& subject);

}  // namespace vram::cli
