// Board: this process's status page (board_page.hpp), on which it publishes figures and receives
// requests.
//
// post() is for hot paths: any thread, no lock, no system call, no allocation, well under a
// microsecond. If two threads post at the same time, one of them gives up: the other's figures are
// as recent. request() and answer() are as cheap and may be called from any thread; the other
// functions belong to one thread at a time.
#pragma once

#include "base/result.hpp"
#include "record/board_page.hpp"
#include "record/segment_list.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace vram::record {

struct BoardPosting {
  uint64_t step = kBoardUnknown;
  uint64_t step_ns = kBoardUnknown;
  std::string_view scope = {};
  std::span<const BoardDevice> devices = {};  // those past the 16th are left out
};

struct PageRequest {
  uint64_t number = 0;
  PageOrder order = {};
};

class Board {
 public:
  // Creates the folder (mode 0700) and the page (0600) if they do not exist; the page appears
  // complete. Replaces the page of a dead process with the same pid, except one of another pid
  // namespace: then this page gets another name. Removes pages of other dead processes, such as a
  // forked child that ended with _exit(). kIo: the folder or the page cannot be created, or the
  // folder belongs to another user or is open to others.
  [[nodiscard]] static Result<Board> open(const std::string& folder);
  Board(Board&& other) noexcept
      : path_(std::move(other.path_)),
        listed_(std::move(other.listed_)),
        owner_pid_(other.owner_pid_),
        page_(std::exchange(other.page_, nullptr)) {}
  Board& operator=(Board&&) = delete;
  ~Board();  // withdraws the page, too
  [[nodiscard]] std::string folder() const { return path_.substr(0, path_.rfind('/')); }
  // Removes the page, unless this is a fork of the process that owns it. post() may still be
  // called; it has no effect.
  void withdraw();

  // False: another thread was posting.
  bool post(const BoardPosting& posting) noexcept;
  // The newest request that was not answered.
  [[nodiscard]] std::optional<PageRequest> request(BoardSlot slot = BoardSlot::kTrim) const;
  // States whether requests to record are answered.
  void set_records(bool records);
  // States that requests to list the segments are answered.
  void set_lists_segments();
  // kBoardUnknown: the released amount is unknown. Returns false if the request was taken back.
  bool answer(const PageRequest& request, uint64_t bytes, BoardSlot slot = BoardSlot::kTrim);
  // Writes the file of a list of segments, and answers with its size; a failure is answered, too.
  // The requester removes the file; if it does not, the next answer and withdraw() do.
  Result<> answer_segments(const PageRequest& request, std::span<const ListedSegment> segments,
                           std::span<const ListedBlock> blocks);

 private:
  Board(std::string path, BoardPage* page);
  void remove_listed();
  std::string path_;
  std::string listed_;  // the file of the last answer_segments(); empty: none
  uint32_t owner_pid_;
  [[nodiscard]] BoardRequest& slot(BoardSlot slot) const;
  BoardPage* page_;  // shared memory; not inherited by a fork
};

}  // namespace vram::record
