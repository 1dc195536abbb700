// Live: samples the machine's GPUs for the live commands; combines sources, the process table and
// the status pages.
#pragma once

#include "base/result.hpp"
#include "cli/command.hpp"
#include "explain/moment/curve.hpp"
#include "watch/boards.hpp"
#include "watch/playback.hpp"
#include "watch/process_table.hpp"
#include "watch/rates.hpp"
#include "watch/reclaim.hpp"
#include "watch/snapshot.hpp"
#include "watch/sources.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::cli {

// The folders with pages that may be asked: VRAM_BOARD, else this user's; for root, all users'.
[[nodiscard]] std::vector<std::string> board_folders();

// What the live commands read.
struct LiveSource {
  std::string driver = {};                    // "nvml" or "drm"; empty: all that the machine has
  std::optional<std::string> recording = {};  // plays this instead; empty: a demo recording
};

// --gpu with this help, into `target`: "nvml", "drm", "sim:RECORDING", or "sim", which plays a demo
// recording.
[[nodiscard]] Option source_option(std::string help, LiveSource& target);

class Live {
 public:
  // Opens nothing yet but the recording.
  [[nodiscard]] static Result<Live> of(const LiveSource& source = {},
                                       watch::CommandLines commands = watch::CommandLines::kFull);
  // Takes a sample; what is slow to open stays open between samples. A machine without GPUs is no
  // error: the notes have the reason. From one thread.
  [[nodiscard]] watch::Snapshot take_sample();
  // Closes drivers; later samples open them again after a pause.
  void release() { sources_.release(); }
  // Finds the memory that could be released. Sends no request.
  [[nodiscard]] watch::Reclaimable read_reclaimable();
  // As above, from a sample that was just taken.
  [[nodiscard]] watch::Reclaimable reclaimable_of(const watch::Snapshot& snapshot);

 private:
  Live(std::vector<watch::Opener> openers, std::shared_ptr<watch::Postings> postings,
       watch::CommandLines commands);
  [[nodiscard]] static Live playing(watch::Playable playable, watch::CommandLines commands);

  watch::Sources sources_;
  watch::Rates rates_;
  watch::XidTally xids_;
  watch::ProcessTable table_;
  std::shared_ptr<watch::Postings> postings_;
};

// A recording for a playback (watch/playback.hpp): anything that `vram report` opens.

// At its own pace, its last state for a second more; one without a clock takes a minute.
[[nodiscard]] watch::Playable playable_of(const explain::MemoryTimeline& timeline);

// Reads the whole recording, and keeps only what is played, of the main device.
[[nodiscard]] Result<watch::Playable> open_playable(const std::string& path);

}  // namespace vram::cli
