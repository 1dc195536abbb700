#include "watch/segments_request.hpp"

#include "base/language.hpp"
#include "base/result.hpp"
#include "record/board_page.hpp"
#include "watch/file_request.hpp"

namespace vram::watch {

Result<SegmentList> request_segments(const std::vector<std::string>& folders, uint32_t pid,
                                     uint64_t timeout_ns) {
  VRAM_TRY_ASSIGN(
      const auto file,
      request_file(folders, pid,
                   {.slot = record::BoardSlot::kSegments,
                    .path = record::answered_segments,
                    .failed = tr("could not list its segments: its shared memory may be full, or "
                                 "its PyTorch would list the memory history, too"),
                    .silent = tr("it lists them at the end of a step or a region")},
                   timeout_ns));
  return record::read_segments(file);
}

}  // namespace vram::watch
