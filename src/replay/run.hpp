// run(): drives a program through one allocator on a simulated GPU of its own and takes the
// figures. Between replay() and the peers. Linear in the ops; no allocation per op.
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
