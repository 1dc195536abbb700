// Board: this process's page of the board (board_page.hpp), on which it posts its figures and reads
// what others ask of it.
//
// post() is for the hot path: any thread, no lock, no call of the kernel, no allocation, well under
// a microsecond. Of two threads that post at once one gives way, and its figures are not posted:
// the other's are as new. request() and answer() are as cheap, and for any thread, too; the rest is
// for one thread at a time.
#pragma once

#include "base/result.hpp"
#include "record/board_page.hpp"

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

struct TrimRequest {
  uint64_t number = 0;
  uint64_t device = 0;  // kBoardUnknown: all
  uint64_t bytes = 0;   // at least; kBoardUnknown: all that can be had
};

class Board {
 public:
  // Makes the folder (mode 0700) if it is not there, and the page (0600), which appears whole; one
  // that a dead process of the same pid has left is replaced, but not one of another pid namespace,
  // beside which this one gets a name of its own. Pages of other dead processes are removed: a
  // forked child that ends by _exit() leaves one. kIo: the folder or the page can't be made, or the
  // folder is another user's, or open to others.
  [[nodiscard]] static Result<Board> open(const std::string& folder);
  Board(Board&& other) noexcept
      : path_(std::move(other.path_)),
        owner_pid_(other.owner_pid_),
        page_(std::exchange(other.page_, nullptr)) {}
  Board& operator=(Board&&) = delete;
  ~Board();  // withdraws the page, too
  [[nodiscard]] std::string folder() const { return path_.substr(0, path_.rfind('/')); }
  // The page is taken off the board, unless this is a fork of the process whose page it is. post()
  // may still be called: nobody sees it.
  void withdraw() const;

  // False: another thread was posting.
  bool post(const BoardPosting& posting) noexcept;
  // The newest request that was not answered.
  [[nodiscard]] std::optional<TrimRequest> request() const;
  // kBoardUnknown: nobody can tell how many bytes came back.
  void answer(const TrimRequest& request, uint64_t bytes);

 private:
  Board(std::string path, BoardPage* page);
  std::string path_;
  uint32_t owner_pid_;
  BoardPage* page_;  // shared memory; not inherited by a fork
};

}  // namespace vram::record
