// DocumentQueue: documents that wait for delivery, the oldest first, limited in number and age. Use
// it from one thread at a time.
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

  DocumentQueue(size_t max_size, std::chrono::milliseconds max_age)
      : max_size_(max_size), max_age_(max_age) {}

  // How many were dropped to make room: the oldest. `update`: 0 where it is of none.
  size_t add(std::string text, Clock::time_point now, uint64_t update = 0) {
    documents_.push_back({std::move(text), now, ++count_, update});
    const size_t dropped = documents_.size() > max_size_ ? documents_.size() - max_size_ : 0;
    for (size_t i = 0; i < dropped; ++i) documents_.pop_front();
    return dropped;
  }

  [[nodiscard]] size_t size() const { return documents_.size(); }
  [[nodiscard]] std::optional<Clock::time_point> due() const {
    return documents_.empty() ? std::nullopt : std::optional(documents_.front().since);
  }

  // The update number of the oldest document.
  [[nodiscard]] std::optional<uint64_t> first_update() const {
    const auto found =
        std::ranges::find_if(documents_, [](const Document& each) { return each.update != 0; });
    return found == documents_.end() ? std::nullopt : std::optional(found->update);
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
    for (; !documents_.empty() && now - documents_.front().since > max_age_; ++dropped)
      documents_.pop_front();
    return dropped;
  }

 private:
  struct Document {
    std::string text;
    Clock::time_point since;
    size_t number = 0;
    uint64_t update = 0;
  };
  size_t max_size_;
  std::chrono::milliseconds max_age_;
  std::deque<Document> documents_;
  size_t count_ = 0;
  size_t taken_ = 0;
};

}  // namespace vram::serve::notify
