// Live: what the machine's GPUs do now, for the commands of the live half: where sources, the
// process table and the board are put together.
#pragma once

#include "base/result.hpp"
#include "watch/boards.hpp"
#include "watch/playback.hpp"
#include "watch/process_table.hpp"
#include "watch/rates.hpp"
#include "watch/reclaim.hpp"
#include "watch/snapshot.hpp"
#include "watch/sources.hpp"
#include "watch/xid_tally.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vram::cli {

// In which pages may be asked on: VRAM_BOARD, else this user's; for root all users'.
[[nodiscard]] std::vector<std::string> board_folders();

class Live {
 public:
  // `source` is the value of --gpu: "nvml", "drm", "sim:RECORDING", "sim" (plays a demo
  // recording), or empty for whatever the machine has. Opens nothing yet but the recording.
  // kBadInput: no such source.
  [[nodiscard]] static Result<Live> of(const std::string& source,
                                       watch::CommandLines commands = watch::CommandLines::kFull);
  // One look; what is slow to open stays open in between. A machine without GPUs is no error: the
  // notes say why it has none. From one thread.
  [[nodiscard]] watch::Snapshot take_sample();
  // Lets go of drivers; looks open them again after a pause.
  void release() { sources_.release(); }
  // One look at who could give memory back. Asks nobody.
  [[nodiscard]] watch::Reclaimable read_reclaimable();
  // The same of a look that was just taken.
  [[nodiscard]] watch::Reclaimable reclaimable_of(const watch::Snapshot& snapshot);

 private:
  Live(std::vector<watch::Opener> openers, std::shared_ptr<watch::Postings> postings,
       watch::CommandLines commands);
  [[nodiscard]] static Live playing(watch::Playable playable);

  watch::Sources sources_;
  watch::Rates rates_;
  watch::XidTally xids_;
  watch::ProcessTable table_;
  std::shared_ptr<watch::Postings> postings_;
};

}  // namespace vram::cli
