// AttachedRecording: writes what an attachment observes to a .vtrace file, until the process ends,
// a time has passed, or the caller stops it. The recording begins in the middle of a run: it does
// not know the blocks that were there before, and says so. Use it from one thread at a time.
#pragma once

#include "attach/attachment.hpp"
#include "attach/target.hpp"
#include "base/result.hpp"
#include "record/file/recording.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace vram::attach {

struct AttachOptions {
  uint32_t pid = 0;
  std::string path;
  record::Existing existing = record::Existing::kReplaceOwn;
  bool python_stacks = false;
  std::optional<std::chrono::nanoseconds> duration = {};
  // Ends the recording when it is readable; -1: nothing does.
  int stop_descriptor = -1;
};

enum class AttachEnd : uint8_t {
  kStopped,  // by the caller, or after the duration
  kProcessEnded,
  kProcessReplaced,  // by exec
};

struct AttachSummary {
  AttachEnd end = AttachEnd::kStopped;
  uint64_t mallocs = 0;
  uint64_t frees = 0;          // of blocks whose allocation was recorded
  uint64_t unknown_frees = 0;  // of blocks from before the recording
  uint64_t lost = 0;
  uint64_t peak_bytes = 0;  // of blocks allocated since the recording began, all devices
  uint64_t live_bytes = 0;  // of those, at the end
};

class AttachedRecording {
 public:
  // Attaches, then creates the file. The errors of Attachment::attach() and
  // record::Recording::create(); after an error the process is as before.
  [[nodiscard]] static Result<std::unique_ptr<AttachedRecording>> create(
      const AttachOptions& options);

  // Returns when the recording has ended and its file is complete. kIo: the file cannot be written.
  [[nodiscard]] Result<AttachSummary> run();
  [[nodiscard]] const std::vector<std::string>& libraries() const {
    return attachment_.libraries();
  }

 private:
  struct Block {
    uint16_t device = 0;
    uint64_t size_bytes = 0;
  };
  AttachedRecording(AttachOptions options, Target target, Attachment attachment)
      : options_(std::move(options)),
        target_(std::move(target)),
        attachment_(std::move(attachment)) {}
  [[nodiscard]] Result<> open_file();
  // Nothing while the recording continues.
  [[nodiscard]] std::optional<AttachEnd> wait() const;
  [[nodiscard]] Result<> take();
  [[nodiscard]] Result<> add_malloc(const AllocatorEvent& event,
                                    std::span<const PythonFrame> frames);
  [[nodiscard]] Result<> add_free(const AllocatorEvent& event);
  [[nodiscard]] Result<> finish();

  AttachOptions options_;
  Target target_;
  Attachment attachment_;
  std::unique_ptr<record::Recording> recording_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t unix_minus_clock_ns_ = 0;
  // PyTorch's probe of a free has the address only.
  std::unordered_map<uint64_t, Block> blocks_;
  AttachSummary summary_;
};

}  // namespace vram::attach
