// Boards: reads the status pages (record/board_page) of the processes that drivers name. A page is
// accepted for a process if it is in the folder of the process's user, its owner is alive, and the
// owner started when the process did; so no process can publish figures for another user's process.
//
//     ProcessFacts ──▶ figures_of ──▶ add_figures ──▶ Process
//
// Use it from one thread at a time. It reads only the pages of the given processes. The list of
// pages is cached while the folder does not change, so a process without a page costs nothing; the
// list of a very large folder is not read at all.
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

// A source of the figures that processes publish.
class Postings {
 public:
  virtual ~Postings() = default;
  // Starts a sample: until the next call, cached lists of pages may be used.
  virtual void begin_sample() {}
  // Returns the figures of a living process with these current facts.
  [[nodiscard]] virtual std::optional<record::BoardFigures> figures_of(
      const ProcessFacts& facts) = 0;
};

class Boards final : public Postings {
 public:
  // Returns the folders of a user's pages.
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
  // A folder as it was when it was last read. Any change of its contents changes `facts`.
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

// Adds the posted figures to the process's uses by device. Processes number devices as CUDA does:
// if the use is ambiguous, no figures are added.
void add_figures(Process& process, const record::BoardFigures& figures, const KnownProcess& known,
                 const std::vector<Device>& devices);

// Maps CUDA's device numbers of a process to devices, as far as possible from outside: CUDA numbers
// the devices in CUDA_VISIBLE_DEVICES in their order, or else all devices. That order is the
// management library's only if the devices are equal or CUDA_DEVICE_ORDER selects it.

// Returns the device's index in the snapshot, or nothing if it cannot be determined.
[[nodiscard]] std::optional<uint32_t> device_of_cuda(uint64_t ordinal, const KnownProcess& process,
                                                     const std::vector<Device>& devices);

}  // namespace vram::watch
