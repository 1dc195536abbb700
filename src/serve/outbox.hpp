// Outbox: changes of alerts until all receivers have got them, so that a later process can deliver
// the rest. Bounded: the oldest are dropped. A value; use it from one thread at a time.
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

  // Drops updates that all receivers have got.
  void settle(const notify::Undelivered& undelivered);
  [[nodiscard]] bool empty() const { return updates_.empty(); }

  // Converts the updates and their undelivered receivers to text; and back, the oldest update
  // first.
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
