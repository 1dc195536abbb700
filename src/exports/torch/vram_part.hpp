// What a recording has and PyTorch's snapshots have not, as the value of the key "vram"
// (trace/import/torch/keywords.hpp). Internal to exports/torch.
#pragma once

#include "exports/torch/pickled_tables.hpp"
#include "trace/trace.hpp"

namespace vram::exports {

// `shown`: the kind of the devices that are in the lists of GPUs.
void write_vram_part(const trace::Trace& trace, trace::DeviceKind shown, PickledTables& pickled);

}  // namespace vram::exports
