#include "cli/record_attach.hpp"

#include "base/result.hpp"

namespace vram::cli {

Result<int> record_by_attaching(uint32_t pid, const watch::RecordOrder& /*order*/,
                                const Output& /*output*/, Console& /*console*/) {
  return fail(Code::kNotFound,
              "process {} has no flight recorder: expected a process of this user that called "
              "vram.flight_recorder(), or that 'vram run --flight' started",
              pid);
}

}  // namespace vram::cli
