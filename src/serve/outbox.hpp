// Outbox: changes of alerts until all receivers have been told of them, so that a later process can
// tell those that have not. Bounded: of more the oldest are dropped. A value, one thread at a time.
#pragma once

#include "base/result.hpp"
#include "serve/notify/notifier.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace vram::serve {

class Outbox {
 public:
  // By the next number.
  void add(const show::AlertsMoment& moment, std::vector<watch::AlertChange> changes);
  [[nodiscard]] uint64_t next_number() const { return next_number_; }

  // Those that nobody is owed are dropped.
  void settle(const notify::Undelivered& undelivered);
  [[nodiscard]] bool empty() const { return updates_.empty(); }

  // With who is owed what, as text; and back, with the news that are owed still, the oldest first.
  [[nodiscard]] std::string save(const notify::Undelivered& undelivered) const;
  struct Restored {
    std::vector<notify::AlertUpdate> update;
    notify::Undelivered undelivered;
  };
  [[nodiscard]] Result<Restored> restore(const std::string& saved);

 private:
  std::deque<notify::AlertUpdate> updates_;
  uint64_t next_number_ = 1;
};

}  // namespace vram::serve
