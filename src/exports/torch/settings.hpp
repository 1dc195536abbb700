// Settings of a recording as values of a pickle: the texts that readers make of PyTorch's nested
// allocator_settings become numbers, truth values, lists and dictionaries again. Internal to
// exports/torch.
#pragma once

#include "exports/torch/pickle.hpp"
#include "trace/trace.hpp"

#include <span>

namespace vram::exports {

// One dictionary. Keys with '.' become nested dictionaries, one level deep, as PyTorch's are.
void write_settings(std::span<const trace::Setting> settings, PickleWriter& out);

}  // namespace vram::exports
