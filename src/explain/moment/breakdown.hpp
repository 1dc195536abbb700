// Breakdown: who holds the memory of a moment, by one dimension. Every live block belongs to
// exactly one holder, so the sums equal the moment's totals: requested_bytes to requested,
// block_bytes to active.
//
// Without any stack in the recording, kUserFrame falls back to size classes (as kSize). What was
// alive before the recording and has no known origin is "before recording" in the dimensions of
// origin (stack, user frame, scope, age). Not thread-safe; allocates per holder.
#pragma once

#include "explain/moment/live_set.hpp"
#include "explain/moment/sources.hpp"
#include "explain/report.hpp"
#include "explain/site/site.hpp"

#include <cstdint>
#include <string>

namespace vram::explain {

// Tells which group a block belongs to, and what the group is called.
class Grouping {
 public:
  Grouping(const Sources& sources, const LiveSet& live, Dimension by);

  // Equal for blocks of one group. Different keys may still have the same name, and are then one
  // holder, except between stacks.
  [[nodiscard]] uint64_t key(const Lifetime& lifetime);
  [[nodiscard]] std::string name(const Lifetime& member);

 private:
  [[nodiscard]] uint64_t scope_key(const Lifetime& lifetime) const;
  [[nodiscard]] uint64_t age_key(const Lifetime& lifetime) const;
  [[nodiscard]] uint64_t pool_key(const Lifetime& lifetime) const;

  const Sources& sources_;
  const LiveSet& live_;
  Dimension by_;
  UserFrames user_frames_;
};

[[nodiscard]] Breakdown break_down(const Sources& sources, const LiveSet& live, Dimension by);

// "4 MiB blocks": sizes that print alike are one class.
[[nodiscard]] std::string size_class_name(uint64_t requested_bytes);

}  // namespace vram::explain
