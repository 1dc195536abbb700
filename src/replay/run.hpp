// run(): runs a program with one allocator on its own simulated GPU and returns the figures.
// Between replay() and the peers. Linear in the ops; allocates nothing for an op.
#pragma once

#include "replay/registry.hpp"
#include "replay/replay.hpp"

#include <vector>

namespace vram::replay {

// With log, the calls made to the driver after the initial segments. The spec was checked.
[[nodiscard]] ReplayResult run(const Program& program, const Peer& peer, const AllocatorSpec& spec,
                               const ReplayOptions& options,
                               std::vector<DriverCall>* log = nullptr);

}  // namespace vram::replay
