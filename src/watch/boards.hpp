// Boards: what the processes that drivers name say of themselves on the board (record/board_page).
// A page counts for a process if it lies in the folder of the process's user, its owner lives and
// started when the process did: nobody speaks for another user's process.
//
//     ProcessFacts ──▶ figures_of ──▶ add_figures ──▶ Process
//
// Any thread. Asks for the pages of given processes, so that a folder full of files costs nothing.
#pragma once

#include "record/board_reader.hpp"
#include "watch/process_table.hpp"
#include "watch/snapshot.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::watch {

// Whoever knows what processes post of themselves.
class Postings {
 public:
  virtual ~Postings() = default;
  [[nodiscard]] virtual std::optional<record::BoardFigures> figures_of(
      const ProcessFacts& facts) const = 0;
};

class Boards final : public Postings {
 public:
  // Folders are named by the prefix and the number of their user.
  explicit Boards(std::string prefix = "/dev/shm/vram-") : prefix_(std::move(prefix)) {}
  // One folder, whose owner's processes post in it.
  [[nodiscard]] static Boards in(std::string folder) {
    Boards boards;
    boards.folder_ = std::move(folder);
    return boards;
  }

  [[nodiscard]] std::optional<record::BoardFigures> figures_of(
      const ProcessFacts& facts) const override;

 private:
  std::string prefix_;
  std::string folder_;  // instead; empty: by the prefix
};

// As posted, whatever the device has.
[[nodiscard]] AllocatorFigures allocator_figures(const record::BoardDevice& posted);

// Adds what the process posted, to each use the figures of its device. Devices are posted by CUDA's
// numbers: where it is not certain which of the process's uses is meant, no figures are added.
void add_figures(Process& process, const record::BoardFigures& figures, const KnownProcess& known,
                 const std::vector<Device>& devices);

}  // namespace vram::watch
