// PageRequester: asks another process, through its status page, to release memory, to record, or to
// list its segments (BoardSlot); the counterpart of Board::request() and answer().
//
//     start() ─▶ queued ── no other request is pending ─▶ asked ── the owner answers ─▶ answered
//                └─────────── the owner dies, or removes its page ───────────▶ gone
//
// The requester holds the page's lock until it has an answer or is destroyed (the kernel releases
// it if the process is killed), so each of two requesters gets its own answer. Writes only the
// request area. Use it from one thread at a time; to ask several processes, poll several
// requesters.
#pragma once

#include "base/result.hpp"
#include "record/board_page.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace vram::record {

enum class RequestState : uint8_t {
  kQueued,     // another request is pending; this one is not written yet
  kAsked,      // placed, and not answered yet
  kAnswered,   // by the process
  kOwnerDied,  // before it answered
  kWithdrawn,  // the process lives, and has taken its page away
  kBroken,     // the page can no longer be read or written
};

class PageRequester {
 public:
  // kNotFound, kBadInput, kUnsupported: as PageFile::open; also kBadInput: the folder or the page
  // is open to others or has a second name, or the page is not its owner's; kNotFound: the owner is
  // dead, or does not answer such requests; kUnsupported: it is in another pid namespace, and must
  // be asked from there.
  [[nodiscard]] static Result<PageRequester> start(const std::string& folder, uint32_t pid,
                                                   const PageOrder& order,
                                                   BoardSlot slot = BoardSlot::kTrim);

  // Checks once, without waiting. From kAnswered on the state is final.
  RequestState poll();
  // Waits until the request is over or the time has passed; 0: checks once.
  RequestState wait(uint64_t timeout_ns);
  [[nodiscard]] RequestState state() const { return state_; }
  [[nodiscard]] bool is_over() const { return state_ > RequestState::kAsked; }
  // Takes back a request that was not answered. Returns the state, which may be kAnswered: the
  // answer came at the last moment.
  RequestState withdraw();
  // The released bytes, as reported by the process; unknown before the answer, or if it cannot
  // tell.
  [[nodiscard]] std::optional<uint64_t> bytes() const { return bytes_; }
  // 0 before it is asked.
  [[nodiscard]] uint64_t number() const { return number_; }

 private:
  PageRequester(PageFile page, const PageOrder& order, BoardSlot slot)
      : page_(std::move(page)), order_(order), at_(offset_of(slot)) {}
  [[nodiscard]] RequestState next();
  [[nodiscard]] RequestState place();
  [[nodiscard]] RequestState check_answer();
  PageFile page_;
  PageOrder order_;
  size_t at_;  // of the request in the page
  RequestState state_ = RequestState::kQueued;
  uint64_t number_ = 0;
  std::optional<uint64_t> bytes_;
};

}  // namespace vram::record
