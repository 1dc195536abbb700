// Breakdown: who holds the memory of a moment, by one dimension. Every live block belongs to
// exactly one holder, so the sums equal the moment's totals: requested_bytes to requested,
// block_bytes to active.
//
// kUserFrame tells blocks by the name that the program gave them, else by the user's frame of their
// stack, else by the path of their scope, else by size class; a recording that has none of the
// first three is told by kSize. What was
// alive before the recording and has no known origin is "before recording" in the dimensions of
// origin (stack, user frame, scope, age). Not thread-safe; allocates per holder.
#pragma once

#include "explain/moment/live_set.hpp"
#include "explain/moment/sources.hpp"
#include "explain/report.hpp"
#include "explain/site/site.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace vram::explain {

// Holders that are no place: what was there before the recording and has no known origin, and
// blocks of which the recording says nothing.
inline constexpr std::string_view kBeforeName = "before recording";
inline constexpr std::string_view kNoStackName = "no stack recorded";
inline constexpr std::string_view kNoScopeName = "outside all scopes";

// Tells which group a block belongs to, and what the group is called.
class Grouping {
 public:
  Grouping(const Sources& sources, const LiveSet& live, Dimension by);

  // Equal for blocks of one group. Different keys may still have the same name, and are then one
  // holder, except between stacks.
  [[nodiscard]] uint64_t key(uint32_t lifetime);
  [[nodiscard]] std::string name(uint32_t member);

 private:
  [[nodiscard]] uint64_t site_key(uint32_t id);
  [[nodiscard]] std::string site_name(uint32_t id);
  [[nodiscard]] trace::StringId path_of(const Lifetime& lifetime) const;
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
