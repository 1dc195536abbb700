// DocumentQueue: documents that wait for their receiver, the oldest first, at most so many and none
// for longer than so long. One thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace vram::serve::notify {

class DocumentQueue {
 public:
  using Clock = std::chrono::steady_clock;

  DocumentQueue(size_t most, std::chrono::milliseconds longest) : most_(most), longest_(longest) {}

  // How many were dropped to make room: the oldest. `news`: 0 where it is of none.
  size_t add(std::string text, Clock::time_point now, uint64_t news = 0) {
    documents_.push_back({std::move(text), now, ++count_, news});
    const size_t dropped = documents_.size() > most_ ? documents_.size() - most_ : 0;
    for (size_t i = 0; i < dropped; ++i) documents_.pop_front();
    return dropped;
  }

  [[nodiscard]] size_t size() const { return documents_.size(); }
  [[nodiscard]] std::optional<Clock::time_point> due() const {
    return documents_.empty() ? std::nullopt : std::optional(documents_.front().since);
  }

  // The first news that one of them is of.
  [[nodiscard]] std::optional<uint64_t> first_news() const {
    const auto found =
        std::ranges::find_if(documents_, [](const Document& each) { return each.news != 0; });
    return found == documents_.end() ? std::nullopt : std::optional(found->news);
  }

  // There is one.
  [[nodiscard]] const std::string& next() {
    taken_ = documents_.front().number;
    return documents_.front().text;
  }

  // What next() gave is done with; it may have been dropped meanwhile.
  void remove_taken() {
    if (!documents_.empty() && documents_.front().number == taken_) documents_.pop_front();
  }

  // How many had waited for too long.
  size_t give_up(Clock::time_point now) {
    size_t dropped = 0;
    for (; !documents_.empty() && now - documents_.front().since > longest_; ++dropped)
      documents_.pop_front();
    return dropped;
  }

 private:
  struct Document {
    std::string text;
    Clock::time_point since;
    size_t number = 0;
    uint64_t news = 0;
  };
  size_t most_;
  std::chrono::milliseconds longest_;
  std::deque<Document> documents_;
  size_t count_ = 0;
  size_t taken_ = 0;
};

}  // namespace vram::serve::notify
