#include "replay/fidelity.hpp"

namespace vram::replay {

Fidelity fidelity_of(const Program& program, const ReplayResult& own) {
  Fidelity fidelity{
      .recorded_calls = program.recorded_calls.size(),
      .made_calls = own.made_calls,
      .matched_calls = own.matched_calls,
      .recorded_peak_bytes = program.knows_layout ? program.largest_reserved_bytes : 0,
      .made_peak_bytes = own.peak_reserved_bytes};
  for (const InitialSegment& segment : program.initial_segments)
    fidelity.start_reserved_bytes += segment.size_bytes;
  uint64_t alive_bytes = 0;
  for (const InitialBlock& block : program.initial_blocks) alive_bytes += block.requested_bytes;
  fidelity.start_is_unknown = alive_bytes > fidelity.start_reserved_bytes;
  fidelity.peak_is_before = fidelity.start_is_unknown ||
                            (!program.initial_blocks.empty() &&
                             program.largest_reserved_bytes == fidelity.start_reserved_bytes);
  return fidelity;
}

Fidelity prove(const Program& program, const AllocatorSpec& recorded,
               const std::optional<RecordedLimit>& limit) {
  const auto own = replay(program, recorded, options_under(limit, program));
  return fidelity_of(program, own.value_or(ReplayResult()));
}

Basis basis_of(const ReplayResult& result, bool is_recorded, const Fidelity& fidelity) {
  if (result.model) return Basis::kModel;
  if (!fidelity.is_exact()) return Basis::kEstimate;
  const bool is_same = result.matched_calls == fidelity.recorded_calls &&
                       result.made_calls == fidelity.recorded_calls;
  if (is_recorded && is_same) return Basis::kExact;
  return result.start == Start::kBeginning ? Basis::kEmulated : Basis::kEstimate;
}

}  // namespace vram::replay
