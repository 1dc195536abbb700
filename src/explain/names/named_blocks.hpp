// Names that the program gave to addresses, each with the block that contained the address then.
#pragma once

#include "explain/history/history.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::explain {

struct NamedBlock {
  uint32_t lifetime = 0;
  trace::ContextId context = 0;  // user_metadata is the name, category its category
  uint64_t size_bytes = 0;
};

// One a block: the name of most bytes in it, of such as large the last. In order of lifetimes.
[[nodiscard]] std::vector<NamedBlock> named_blocks(const trace::Tables& tables,
                                                   std::span<const trace::Event> events,
                                                   const History& history);

}  // namespace vram::explain
