// Asks a running process, through its status page, for the segments and blocks of its allocators.
// Of this user's processes only, as root of all users'.
#pragma once

#include "base/result.hpp"
#include "record/segment_list.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::watch {

using record::BlockState;
using record::kSegmentExpandable;
using record::kSegmentPrivate;
using record::kSegmentSmall;
using record::ListedBlock;
using record::ListedSegment;
using record::SegmentList;

// Waits at most timeout_ns. Errors as of request_file (file_request.hpp); also kBadInput: what the
// process has written is no list.
[[nodiscard]] Result<SegmentList> request_segments(const std::vector<std::string>& folders,
                                                   uint32_t pid, uint64_t timeout_ns);

}  // namespace vram::watch
