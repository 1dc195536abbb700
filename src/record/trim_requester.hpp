// TrimRequester: asking another process, through its page of the board, to give memory back; the
// other side of Board::request() and answer().
//
//     start() ─▶ queued ── nobody else is asking it ─▶ asked ── the owner answers ─▶ answered
//                └─────────── the owner dies, or takes its page away ───────────▶ gone
//
// Who asks holds the page's lock until it has its answer or is destroyed (or killed: the kernel
// lets go), so of two askers each gets its own answer. Writes the request area and nothing else.
// One thread at a time; several processes are asked by several of these, polled in turn.
#pragma once

#include "base/result.hpp"
#include "record/board_page.hpp"
#include "record/page_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace vram::record {

struct TrimTarget {
  uint64_t device = kBoardUnknown;  // as the process numbers it; unknown: all
  uint64_t bytes = kBoardUnknown;   // at least; unknown: all that it can
};

enum class TrimState : uint8_t {
  kQueued,     // somebody else is asking; the request is not placed yet
  kAsked,      // placed, and not answered yet
  kAnswered,   // by the process
  kOwnerDied,  // before it answered
  kWithdrawn,  // the process lives, and has taken its page away
  kBroken,     // the page can't be read or written any more
};

class TrimRequester {
 public:
  // kNotFound, kBadInput, kUnsupported: as PageFile::open; also kBadInput: the folder or the page
  // is open to others or has a second name, or the page is not its owner's; kNotFound: the owner is
  // dead; kUnsupported: it lives in another pid namespace, so it is to be asked from there.
  [[nodiscard]] static Result<TrimRequester> start(const std::string& folder, uint32_t pid,
                                                   const TrimTarget& target);

  // Looks once, does not wait. From kAnswered on it stays as it is.
  TrimState poll();
  // Until it is over, or so long; 0: looks once.
  TrimState wait(uint64_t timeout_ns);
  [[nodiscard]] TrimState state() const { return state_; }
  [[nodiscard]] bool is_over() const { return state_ > TrimState::kAsked; }
  // What came back, as the process says; unknown before the answer, and where it can't tell.
  [[nodiscard]] std::optional<uint64_t> bytes() const { return bytes_; }

 private:
  TrimRequester(PageFile page, const TrimTarget& target)
      : page_(std::move(page)), target_(target) {}
  [[nodiscard]] TrimState next();
  [[nodiscard]] TrimState place();
  [[nodiscard]] TrimState check_answer();
  PageFile page_;
  TrimTarget target_;
  TrimState state_ = TrimState::kQueued;
  uint64_t number_ = 0;
  std::optional<uint64_t> bytes_;
};

}  // namespace vram::record
