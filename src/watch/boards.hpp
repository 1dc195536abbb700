// Boards: what the processes that drivers name say of themselves on the board (record/board_page).
// A page counts for a process if it lies in the folder of the process's user, its owner lives and
// started when the process did: nobody speaks for another user's process.
//
//     ProcessFacts ──▶ figures_of ──▶ add_figures ──▶ Process
//
// One thread at a time. Asks for the pages of given processes. Which pages there are is remembered
// from look to look while the folder did not change, so that a process without one costs nothing;
// of a folder with very many files it is not, so that these cost nothing.
#pragma once

#include "record/board_reader.hpp"
#include "watch/process_table.hpp"
#include "watch/snapshot.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::watch {

// Whoever knows what processes post of themselves.
class Postings {
 public:
  virtual ~Postings() = default;
  // Until the next call, what there is to ask may be what there was at this one.
  virtual void begin_sample() {}
  // Of a process that lives, as these facts of now say.
  [[nodiscard]] virtual std::optional<record::BoardFigures> figures_of(
      const ProcessFacts& facts) = 0;
};

class Boards final : public Postings {
 public:
  // Where pages of a user's processes lie.
  using FoldersOf = std::function<std::array<std::string, 2>(uint32_t uid)>;

  Boards()
      : Boards([](uint32_t uid) {
          return std::array{record::board_folder_of(uid), record::second_board_folder_of(uid)};
        }) {}
  explicit Boards(FoldersOf folders_of) : folders_of_(std::move(folders_of)) {}
  // One folder, whose owner's processes post in it.
  [[nodiscard]] static Boards in(const std::string& folder) {
    return Boards([folder](uint32_t) { return std::array{folder, std::string()}; });
  }

  void begin_sample() override;
  [[nodiscard]] std::optional<record::BoardFigures> figures_of(const ProcessFacts& facts) override;

 private:
  // The folder as it was when it was looked at last. A change of what lies in it changes its facts.
  struct Folder {
    std::string path;  // empty: none
    bool is_theirs = false;
    struct stat facts{};
    std::optional<std::vector<uint32_t>> pids;  // of all pages, in order; nothing: not known
    bool can_be_kept = false;                   // while the facts stay the same
  };
  struct User {
    std::array<Folder, 2> folders;
    uint64_t tick = 0;
  };
  [[nodiscard]] const User& user_of(uint32_t uid);
  static void examine(Folder& folder, uint32_t uid);
  [[nodiscard]] std::optional<record::BoardFigures> figures_in(const Folder& folder,
                                                               const ProcessFacts& facts) const;

  FoldersOf folders_of_;
  uint64_t pid_namespace_ = record::own_pid_namespace();
  uint64_t tick_ = 0;                         // 0: none has begun, so nothing is remembered
  std::unordered_map<uint32_t, User> users_;  // by number
};

// As posted, whatever the device has.
[[nodiscard]] AllocatorFigures allocator_figures(const record::BoardDevice& posted);

// Adds what the process posted, to each use the figures of its device. Devices are posted by CUDA's
// numbers: where it is not certain which of the process's uses is meant, no figures are added.
void add_figures(Process& process, const record::BoardFigures& figures, const KnownProcess& known,
                 const std::vector<Device>& devices);

}  // namespace vram::watch
