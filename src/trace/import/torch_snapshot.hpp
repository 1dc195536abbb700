// PyTorch memory snapshots (torch.cuda.memory._dump_snapshot and everything that writes the same
// dictionary, 1.13 to main, pickle protocols 2 to 5) into a Trace. One pass, one thread; memory
// stays near the size of the Trace.
//
//     bytes/ unpack ──▶ pickle/ decode ──▶ torch/ recognise and gather ──▶ torch/assemble ──▶ Trace
#pragma once

#include "base/result.hpp"
#include "trace/import/bytes/source.hpp"
#include "trace/open.hpp"
#include "trace/trace.hpp"

#include <memory>
#include <span>
#include <string_view>

namespace vram::trace {

struct SnapshotLimits {
  uint64_t max_memory_bytes = 0;  // 0: most of the machine's memory
};

// `source` gives the unpacked pickle. Sets everything in Origin but path and file_bytes.
[[nodiscard]] Result<Trace> import_torch_snapshot(ByteSource& source,
                                                  const OpenOptions& options = {},
                                                  const SnapshotLimits& limits = {});

// For files that are no pickle of protocol 2 to 5: returns an error with what they are instead,
// from their first bytes (16 are enough; none: an empty file), and what to do. Success if the file
// may be a snapshot.
[[nodiscard]] Result<> check_snapshot_magic(std::span<const std::byte> first_bytes);

}  // namespace vram::trace
