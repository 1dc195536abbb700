// The memory of a card that is available to a program's allocator: what the driver leaves to
// programs, minus the program's CUDA context. Constant data and pure functions.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace vram::cli {

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

}  // namespace vram::cli
