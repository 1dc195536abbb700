// The positions and times of a file's frames, for programs that read a part of a long recording.
// Written as the last frame of a finished file. The frames' headers contain the same, so a file
// without it (its writer was killed) can be read in the same way. reader.hpp, which reads whole
// files, needs neither.
#pragma once

#include "base/pod_vector.hpp"
#include "trace/vtrace/format.hpp"

#include <cstdint>
#include <span>

namespace vram::trace {

void encode_index(std::span<const FrameHeader> frames, PodVector<uint8_t>& content);

}  // namespace vram::trace
