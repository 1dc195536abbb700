// OpenBoard: this process's status page, as status.h offers it.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "base/spin_lock.hpp"
#include "record/board.hpp"
#include "record/board_reader.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vram::capi {

// The page of this process. A Board is never destroyed: a thread may be posting on it while another
// closes it, and in a fork it is the parent's.
class OpenBoard {
 public:
  static OpenBoard& get() {
    static auto* const one = new OpenBoard;  // nor is this: threads may outlive main()
    return *one;
  }

  [[nodiscard]] Result<> open() {
    const std::scoped_lock lock(lock_);
    is_to_be_renewed_ = false;
    if (board_.load(std::memory_order_relaxed) != nullptr) return {};
    VRAM_TRY_ASSIGN(auto board, make());
    if (!has_handlers_) {
      has_handlers_ = true;
      (void)pthread_atfork(nullptr, nullptr, [] { get().forget(); });
      (void)std::atexit([] { get().close(); });
    }
    boards_.push_back(std::make_unique<record::Board>(std::move(board)));
    board_.store(boards_.back().get(), std::memory_order_release);
    return {};
  }

  void close() {
    const std::scoped_lock lock(lock_);
    is_to_be_renewed_ = false;
    record::Board* const board = board_.exchange(nullptr);
    if (board == nullptr) return;
    board->withdraw();
    (void)record::sweep_board(board->folder());  // forked children that ended meanwhile
  }

  // The one to post on; null: none.
  record::Board* current() {
    if (is_to_be_renewed_.load(std::memory_order_relaxed)) (void)open();
    return board_.load(std::memory_order_acquire);
  }

  // Where pages of this user's processes lie.
  static std::vector<std::string> folders() {
    if (std::string named = trusted_environment("VRAM_BOARD"); !named.empty()) return {named};
    return {record::board_folder_of(geteuid()), record::second_board_folder_of(geteuid())};
  }

 private:
  // In the first folder where it can be made; the error of the first one.
  static Result<record::Board> make() {
    const std::vector<std::string> all = folders();
    auto first = record::Board::open(all.front());
    if (first || all.size() == 1) return first;
    auto second = record::Board::open(all.back());
    return second ? std::move(second) : std::move(first);
  }

  // In the child of a fork, which has this one thread.
  void forget() {
    lock_.unlock();  // the thread that held it does not exist in the child
    if (board_.exchange(nullptr) != nullptr) is_to_be_renewed_ = true;
  }

  SpinLock lock_;                                       // of opening and closing
  std::vector<std::unique_ptr<record::Board>> boards_;  // all that there ever were
  std::atomic<record::Board*> board_{nullptr};
  std::atomic<bool> is_to_be_renewed_{false};
  bool has_handlers_ = false;
};

}  // namespace vram::capi
