#include "record/page_requester.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <unistd.h>

namespace vram::record {
namespace {

constexpr auto kMinPause = std::chrono::milliseconds(1);
constexpr auto kMaxPause = std::chrono::milliseconds(50);

bool is_private(const std::string& folder) {
  struct stat facts{};
  return lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         (facts.st_mode & 0077U) == 0 && (facts.st_uid == geteuid() || geteuid() == 0);
}

// Root writes here, too: so it must be nothing but the page of its user. A second name could be
// that of a file elsewhere.
Result<> check(const std::string& folder, const PageFile& page) {
  const struct stat facts = page.facts();
  const bool is_its_owners = facts.st_uid == page.owner().uid && facts.st_nlink == 1 &&
                             (facts.st_mode & 07777U) == 0600 &&
                             facts.st_size == static_cast<off_t>(kBoardPageBytes);
  if (!is_private(folder) || !is_its_owners) {
    return fail(
        Code::kBadInput,
        "expected {} to be a page that only its user can change, in a folder that only that user "
        "can change; found that others could have put it there: no request was sent",
        page.path());
  }
  switch (page.owner_state()) {
    case OwnerState::kAlive:
      return {};
    case OwnerState::kDead:
      return fail(Code::kNotFound,
                  "expected process {} to run, found that it has ended and left its page {} behind",
                  page.owner().pid, page.path());
    case OwnerState::kOtherNamespace:
      break;
  }
  return fail(Code::kUnsupported,
              "process {} counts in another pid namespace (a container): ask it from in there",
              page.owner().pid);
}

// Whether it says that it answers requests of this kind; every page answers those to trim.
bool answers(const PageFile& page, BoardSlot slot) {
  if (slot == BoardSlot::kTrim) return true;
  const size_t offset = slot == BoardSlot::kRecord ? offsetof(BoardPage, records)
                                                   : offsetof(BoardPage, lists_segments);
  uint64_t flag = 0;
  return page.read_at(&flag, sizeof flag, offset) && flag != 0;
}

}  // namespace

Result<PageRequester> PageRequester::start(const std::string& folder, uint32_t pid,
                                           const PageOrder& order, BoardSlot slot) {
  VRAM_TRY_ASSIGN(auto page, PageFile::open(folder, pid, PageFile::Access::kReadAndWrite));
  VRAM_TRY(check(folder, page));
  if (!answers(page, slot)) {
    if (slot == BoardSlot::kRecord)
      return fail(Code::kNotFound, "process {} has no flight recorder", pid);
    return fail(
        Code::kNotFound,
        "process {} does not list its segments: it does not use PyTorch, or another version "
        "of vram",
        pid);
  }
  PageRequester requester(std::move(page), order, slot);
  requester.poll();
  return requester;
}

RequestState PageRequester::poll() {
  if (!is_over()) state_ = next();
  return state_;
}

RequestState PageRequester::wait(uint64_t timeout_ns) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  std::chrono::nanoseconds pause = kMinPause;
  while (!is_over()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) break;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, left));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, kMaxPause);
    poll();
  }
  return state_;
}

// The owner answers no request while another one is being written. It looks once more after it has
// answered: so either it learns of this, or its answer is seen here.
RequestState PageRequester::withdraw() {
  if (state_ != RequestState::kAsked) return state_;
  const uint64_t next = number_ + 1;
  if (!page_.write_at(&next, sizeof next, at_ + offsetof(BoardRequest, writing)))
    return RequestState::kBroken;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return poll();
}

// An answer counts even if its owner has died since: the bytes came back.
RequestState PageRequester::next() {
  const RequestState state = state_ == RequestState::kQueued ? place() : check_answer();
  if (state > RequestState::kAsked) return state;
  if (page_.owner_state() == OwnerState::kDead) return RequestState::kOwnerDied;
  return page_.facts().st_nlink == 0 ? RequestState::kWithdrawn : state;
}

RequestState PageRequester::place() {
  if (!page_.lock()) return RequestState::kQueued;
  BoardRequest before;
  if (!page_.read_at(&before, sizeof before, at_)) return RequestState::kBroken;
  // One that its asker gave up may still be unanswered: this one takes its place.
  number_ = before.wanted;
  do ++number_;
  while (number_ == before.answered || number_ == 0);  // 0: no request, in status.h
  if (!page_.write_at(&number_, sizeof number_, at_ + offsetof(BoardRequest, writing)))
    return RequestState::kBroken;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::array words = {order_.device_or_steps, order_.bytes_or_ns};
  if (!page_.write_at(words.data(), sizeof words, at_ + offsetof(BoardRequest, device_or_steps)))
    return RequestState::kBroken;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!page_.write_at(&number_, sizeof number_, at_ + offsetof(BoardRequest, wanted)))
    return RequestState::kBroken;
  return RequestState::kAsked;
}

RequestState PageRequester::check_answer() {
  uint64_t answered = 0;
  if (!page_.read_at(&answered, sizeof answered, at_ + offsetof(BoardRequest, answered)))
    return RequestState::kBroken;
  if (answered != number_) return RequestState::kAsked;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  uint64_t bytes = kBoardUnknown;
  if (!page_.read_at(&bytes, sizeof bytes, at_ + offsetof(BoardRequest, answer_bytes)))
    return RequestState::kBroken;
  if (bytes != kBoardUnknown) bytes_ = bytes;
  return RequestState::kAnswered;
}

}  // namespace vram::record
