#include "watch/record_request.hpp"

#include "base/language.hpp"
#include "base/result.hpp"
#include "record/board_page.hpp"
#include "watch/file_request.hpp"

#include <array>
#include <unistd.h>

namespace vram::watch {

Result<Descriptor> request_recording(const std::vector<std::string>& folders, uint32_t pid,
                                     const RecordOrder& order, uint64_t timeout_ns) {
  return request_file(
      folders, pid,
      {.slot = record::BoardSlot::kRecord,
       .order = {order.steps.value_or(record::kBoardUnknown),
                 order.duration_ns.value_or(record::kBoardUnknown)},
       .path = record::answered_recording,
       .failed = tr("could not record: its disk or shared memory may be full"),
       .silent = tr("it begins steps (vram.step()) too rarely, or none; set a longer --timeout")},
      timeout_ns);
}

Result<uint64_t> save_recording(const Descriptor& recording, const std::string& path,
                                Replace replace) {
  VRAM_TRY_ASSIGN(auto file, AtomicFile::create(path, replace));
  std::array<char, size_t{1} << 16> buffer;
  for (uint64_t total = 0;;) {
    const ssize_t bytes = read(recording.number(), buffer.data(), buffer.size());
    if (bytes < 0) return fail(Code::kIo, "cannot read the recording of the process");
    if (bytes == 0) {
      VRAM_TRY(file.commit());
      return total;
    }
    VRAM_TRY(file.write({buffer.data(), static_cast<size_t>(bytes)}));
    total += static_cast<uint64_t>(bytes);
  }
}

}  // namespace vram::watch
